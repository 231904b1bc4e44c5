"""`python -m benchmarks.operators`: which of PyTorch's operators take the time when `english-tiny` embeds sentences."""

from collections import Counter

import torch
from torch.profiler import ProfilerActivity, profile

import elmo_plugin
from benchmarks.table import Table, machine
from benchmarks.text import made_up
from elmo_plugin.embedding import Embedder

KINDS = {
    "matrix products": ("addmm", "baddbmm", "bmm", "linear", "linear_pointwise", "mm"),
    "element by element": ("add", "addcmul", "clamp", "mul", "sigmoid", "sub", "tanh"),
    "finding the distinct words": ("argsort", "sort", "unique", "unique2"),
}
OTHERS = "copies, gathers, layout, others"
SIZES = (8, 32, 128)
"""The sentences of each batch."""


def kind_of(operator: str) -> str:
    """Return the kind of an operator, such as that of `aten::addmm_`."""
    name = operator.rpartition("::")[2].strip("_")
    return next((kind for kind, names in KINDS.items() if name in names or name.startswith("mkl")), OTHERS)


def shares(embedder: Embedder, sentences: list[list[str]]) -> dict[str, float]:
    """Return the share of each kind in the time of all operators, with an empty word cache, after a first pass."""
    times: Counter[str] = Counter()
    for is_warm in (False, True):
        embedder.elmo.bilm.word_cache.clear()
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            for _ in embedder.by_length(sentences):
                pass
        if is_warm:
            for event in profiler.key_averages():
                times[kind_of(event.key)] += event.self_cpu_time_total
    return {kind: times[kind] / times.total() for kind in [*KINDS, OTHERS]}


def main() -> None:
    """Measure and print the table."""
    torch.set_num_threads(1)
    embedder = elmo_plugin.load("english-tiny")
    sentences = made_up(10_000)
    rows = []
    for size in SIZES:
        batch = sentences[:size]
        found = shares(embedder, batch)
        title = f"{size} sentences, {sum(map(len, batch)):,} tokens"
        rows.append([title, *(f"{found[kind]:.0%}" for kind in [*KINDS, OTHERS])])
    remark = "Shares of the time in PyTorch's operators, on one thread, with an empty word cache and made-up text."
    print("\n".join(machine("benchmarks.operators")))
    print("\n".join(Table("Operators: english-tiny", remark, ["", *KINDS, OTHERS], rows).lines()))


if __name__ == "__main__":
    main()
