"""`python -m benchmarks.rule`: time the ways to multiply few rows by a weight, from which `tensors.products` chooses.

The columns of int8 are its products in a recurrence and elsewhere, from which `bilm.precision` chooses.

Run it again with `ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2`, for a processor
without AVX-512. Four weights are used in turn, as in two directions of two layers.
"""

import sys
from functools import partial
from itertools import cycle

import torch
from torch import Tensor
from torch.nn.functional import linear

from benchmarks.table import Table, machine
from benchmarks.timing import Call, interleave
from elmo_plugin.tensors import Int8Weight, Prepared, Way, has_int8

SHAPES = [
    (512, 32),
    (32, 128),
    (1024, 64),
    (64, 256),
    (2048, 256),
    (256, 512),
    (4096, 128),
    (128, 1024),
    (8192, 256),
    (256, 2048),
    (16384, 512),
    (512, 4096),
]
"""O and I of the recurrent weights and the projections of 128/32, 256/64, `tiny`, `small`, 2048/256 and `original`."""
ROWS = (1, 2, 4, 8, 32)
ROUNDS = 30


@torch.no_grad()
def calls(height: int, width: int, rows: int) -> list[Call]:
    """Return each way to multiply one direction's rows (N, I) by a weight (O, I)."""
    weights = torch.randn(4, height, width)
    transposed = weights.mT.contiguous()  # (4, I, O)
    values, out = torch.randn(rows, width), torch.empty(rows, height)
    ways = {
        "`linear`": [partial(linear, values, weight) for weight in weights],
        "`mm`, transposed": [partial(torch.mm, values, weight, out=out) for weight in transposed],
    }
    for name, way in (("MKL", Way.MKL), ("oneDNN", Way.ONEDNN), ("oneDNN, prepacked", Way.ONEDNN_COPY)):
        product = Prepared(weights, way, [None] * 4)
        ways[name] = [partial(product.one, number, values) for number in range(4)]
    if has_int8():
        rounded = [Int8Weight(weight) for weight in weights]
        ways["int8, recurrent"] = [partial(weight.product, values) for weight in rounded]
        ways["int8"] = [partial(weight.precise_product, values) for weight in rounded]
    both, both_out = torch.randn(2, rows, width), torch.empty(2, rows, height)
    stacked = [Prepared(weights[first : first + 2], Way.MKL_COPY) for first in (0, 2)]
    ways["MKL, both directions"] = [partial(product, both, out=both_out) for product in stacked]
    return [Call(name, partial(run_next, cycle(functions))) for name, functions in ways.items()]


@torch.no_grad()
def run_next(functions: "cycle[partial[Tensor]]") -> None:
    """Run the next of some functions."""
    next(functions)()


def main() -> int:
    """Print one table."""
    names = [call.name for call in calls(8, 8, 1)]
    rows = []
    for height, width in SHAPES:
        for count in ROWS:
            times = interleave(calls(height, width, count), ROUNDS, torch.device("cpu"))
            halved = {name: each.median / (2 if "both" in name else 1) for name, each in times.items()}
            cells = [f"{1e6 * halved[name]:.0f}" if name in halved else "" for name in names]
            rows.append([f"{height} × {width}, {count}", *cells])
    table = Table("Products", "Microseconds for one direction, medians.", ["weight (O × I), rows", *names], rows)
    print("\n".join([*machine("benchmarks.rule"), *table.lines()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
