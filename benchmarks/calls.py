"""`python -m benchmarks.calls`: count the calls of our functions in the embedding of one sentence, and their depth.

The words are cached and there are no gradients. Calls inside the loop over time steps are counted apart.
"""

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import nn

import elmo_plugin
from elmo_plugin.elmo import ElmoTokenEmbedder
from elmo_plugin.text import batch_to_ids

PACKAGE = str(Path(elmo_plugin.__file__).parent)
WRAPPER = "outside_of_graphs.py"
"""A decorator in place of PyTorch's `torch.compiler.disable`, whose frames were not ours either."""
LOOP = "forward_steps"
"""The function that loops over the time steps."""
SENTENCE = ["The", "ship", "sailed", "from", "the", "old", "harbour", "at", "dawn", "."]


class Count(NamedTuple):
    """calls : the calls of each function of ours outside the time steps; depth : the frames down to the recurrence"""

    calls: Counter[str]
    in_steps: int
    depth: int


@torch.no_grad()
def count_calls(embedder: nn.Module, sentence: list[str]) -> Count:
    """Count the calls of our functions while a sentence is embedded."""
    ids = batch_to_ids([sentence])
    embedder(ids)  # caches the words and prepares the products
    calls: Counter[str] = Counter()
    in_steps, depths = 0, [0]

    def ours(frame: FrameType) -> bool:
        path = frame.f_code.co_filename
        return path.startswith(PACKAGE) and not path.endswith(WRAPPER)

    def watch(frame: FrameType, event: str, _: Any) -> None:
        nonlocal in_steps
        if event != "call" or not ours(frame):
            return
        above, names = frame.f_back, []
        while above is not None:
            if ours(above):
                names.append(above.f_code.co_qualname)
            above = above.f_back
        if LOOP in names:
            in_steps += 1
            return
        calls[f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_qualname}"] += 1
        if frame.f_code.co_qualname == LOOP:
            depths.append(len(names))

    sys.setprofile(watch)
    try:
        embedder(ids)
    finally:
        sys.setprofile(None)
    return Count(calls, in_steps, max(depths))


def main() -> int:
    """Print the counts."""
    count = count_calls(ElmoTokenEmbedder(bilm="english-tiny", dropout=0.0).eval(), SENTENCE)
    for name, number in count.calls.most_common():
        print(f"{number:4} {name}")
    print(f"{count.calls.total()} calls besides {count.in_steps} in the time steps")
    print(f"{count.depth} frames from the embedder's forward to the recurrence")
    return 0


if __name__ == "__main__":
    sys.exit(main())
