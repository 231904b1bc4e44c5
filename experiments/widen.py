"""Give the LSTMs of a biLM more cells without changing what they compute."""

import argparse
import sys
from pathlib import Path
from typing import Optional

import torch

from elmo_plugin.bilm import BiLMOptions
from elmo_plugin.checkpoints import Checkpoint, Native, load_checkpoint

DESCRIPTION = """
Copy BILM, a biLM in any format, to OUT.safetensors with CELLS cells in each LSTM, at most twice as many as before. It
computes the same, because the projections of the new cells are zero, and can be trained further as a larger one:

  python -m experiments.widen english-tiny wide.safetensors 1024
"""


def parse(arguments: Optional[list[str]] = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        "python -m experiments.widen", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bilm", metavar="BILM")
    parser.add_argument("output", metavar="OUT", type=Path)
    parser.add_argument("cells", metavar="CELLS", type=int)
    return parser.parse_args(arguments)


def widened(checkpoint: Checkpoint, cells: int) -> Checkpoint:
    """Return a biLM whose LSTMs have `cells` cells, with the softmax and vocabulary of `checkpoint`.

    The weights into a new cell are those into one old cell plus or minus those into another, divided by √2, which keeps
    their size; its biases are those of the first. Net2Net (Chen et al. 2016) copies cells and divides what they put
    out; two copies need noise to learn different things.
    """
    generator = torch.Generator().manual_seed(1)
    options = checkpoint.options.to_dict()
    old, options["lstm"]["dim"] = options["lstm"]["dim"], cells
    new = cells - old
    state = dict(checkpoint.state_dict)
    for layer in [name.removesuffix("weight_ih") for name in state if name.endswith(".weight_ih")]:
        first, second = (torch.randperm(old, generator=generator)[:new] for _ in range(2))
        for key in ("weight_ih", "weight_hh", "bias"):
            gates = state[layer + key].unflatten(0, (4, old))
            added = gates[:, first]
            if key != "bias":
                signs = torch.randn(new, generator=generator).sign()[:, None]
                added = (added + gates[:, second] * signs) * 0.5**0.5
            state[layer + key] = torch.cat([gates, added], dim=1).flatten(0, 1)
        projection = state[layer + "weight_hr"]
        state[layer + "weight_hr"] = torch.cat([projection, projection.new_zeros(len(projection), new)], dim=1)
    return checkpoint._replace(options=BiLMOptions.from_dict(options), state_dict=state)


def main() -> None:
    """Write the widened biLM."""
    args = parse()
    checkpoint = load_checkpoint(args.bilm)
    cells = checkpoint.options.lstm.cell_dim
    if not cells < args.cells <= 2 * cells:
        sys.exit(f"CELLS: expected more than the {cells} of '{args.bilm}', at most {2 * cells}, got {args.cells}")
    Native().write(widened(checkpoint, args.cells), args.output)


if __name__ == "__main__":
    main()
