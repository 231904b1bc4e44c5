"""The kernel `fused` for GPUs: one Triton kernel between two matrix products of the recurrence, instead of ten.

Each program computes `BLOCK` numbers of one direction of a step. The numbers of a direction must be contiguous; its
distance from the other direction is a stride. The kernels use only `tl`, so that Triton's interpreter can run them
without a GPU. Since they read both directions at once, they have run in that interpreter and have been compiled for a
GPU, but have not run on one.
"""

from collections.abc import Sequence
from typing import Any, Optional

import torch
import triton
import triton.language as tl
from torch import Tensor

from elmo_plugin.lstm.recurrence import packed
from elmo_plugin.lstm.types import LstmClips, LstmState, Product

BLOCK = 256
"""The count of numbers that one program computes."""


def fused(
    gates: Tensor,
    sizes: list[int],
    recurrent: Product,
    projection: Optional[Product],
    state: LstmState,
    clips: LstmClips,
) -> tuple[Tensor, LstmState]:
    """Run the recurrence with Triton kernels; see `Kernel`. State and outputs are float32, or float64.

    Raises `ValueError` on a CPU, unless Triton's interpreter runs the kernels.
    """
    if gates.device.type != "cuda" and isinstance(cell_forward, triton.runtime.JITFunction):
        raise ValueError(
            "kernel 'fused': expected a CUDA device, or TRITON_INTERPRET=1 before Triton is imported, got "
            f"'{gates.device}'"
        )
    with torch.cuda.device_of(gates):
        return packed(gates, sizes, recurrent, projection, state, clips, TritonPointwise())


class TritonPointwise:
    """`Pointwise` with one Triton kernel per method."""

    def cell_forward(
        self,
        gates: Tensor,
        quarters: Sequence[Tensor],
        before: Tensor,
        after: Tensor,
        cell_output: Tensor,
        clip: Optional[float],
        keep: bool,
    ) -> None:
        """Compute the cell and o·tanh c; see `Pointwise`."""
        launch(cell_forward, after, clip, gates, before, after, cell_output)

    def output_backward(
        self, d_output: Tensor, d_hidden: Tensor, output: Tensor, clip: Optional[float], d_raw: Tensor
    ) -> None:
        """Compute the gradient of the output before its clip; see `Pointwise`."""
        launch(output_backward, output, clip, d_output, d_hidden, output, d_raw)

    def cell_backward(
        self,
        activations: Tensor,
        before: Tensor,
        after: Tensor,
        d_cell_output: Tensor,
        d_cell: Tensor,
        d_gates: Tensor,
        clip: Optional[float],
    ) -> None:
        """Compute the gradients of the gates and of the cell before; see `Pointwise`."""
        launch(cell_backward, after, clip, activations, before, after, d_cell_output, d_cell, d_gates)


def launch(kernel: Any, like: Tensor, clip: Optional[float], *arguments: Tensor) -> None:
    """Run a kernel for each number of `like` (R, active, ·), in float64 if one of the tensors is, else in float32."""
    precise = any(one.dtype == torch.float64 for one in arguments)
    directions, rows, width = like.shape
    grid = (triton.cdiv(rows * width, BLOCK), directions)
    # A gradient of the outputs may have any strides, such as those of an expanded number.
    arguments = tuple(one if one.stride()[1:] == (one.size(2), 1) else one.contiguous() for one in arguments)
    strides = [one.stride(0) for one in arguments]
    dtype = tl.float64 if precise else tl.float32
    kernel[grid](*arguments, *strides, rows * width, width, CLIP=clip, TYPE=dtype, BLOCK=BLOCK)


@triton.jit(do_not_specialize=["numbers", "gates_stride", "before_stride", "after_stride", "cell_output_stride"])
def cell_forward(
    gates: tl.tensor,
    before: tl.tensor,
    after: tl.tensor,
    cell_output: tl.tensor,
    gates_stride: tl.tensor,
    before_stride: tl.tensor,
    after_stride: tl.tensor,
    cell_output_stride: tl.tensor,
    numbers: tl.tensor,
    width: tl.tensor,
    CLIP: tl.constexpr,
    TYPE: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Compute the activations, the cell and o·tanh c (active, H) from the pre-activations (active, 4H), in place."""
    direction = tl.program_id(1).to(tl.int64)
    gates += direction * gates_stride
    before += direction * before_stride
    after += direction * after_stride
    cell_output += direction * cell_output_stride
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = n < numbers
    first = n + 3 * (n // width) * width  # the positions of i in (active, 4H)
    i = _sigmoid(_load(gates, first, here, TYPE))
    f = _sigmoid(_load(gates, first + width, here, TYPE))
    g = _tanh(_load(gates, first + 2 * width, here, TYPE))
    o = _sigmoid(_load(gates, first + 3 * width, here, TYPE))
    tl.store(gates + first, i, mask=here)
    tl.store(gates + first + width, f, mask=here)
    tl.store(gates + first + 2 * width, g, mask=here)
    tl.store(gates + first + 3 * width, o, mask=here)
    c = _clip(f * _load(before, n, here, TYPE) + i * g, CLIP, TYPE)
    tl.store(after + n, c, mask=here)
    tl.store(cell_output + n, o * _tanh(c), mask=here)


@triton.jit(do_not_specialize=["numbers", "d_output_stride", "d_hidden_stride", "output_stride", "d_raw_stride"])
def output_backward(
    d_output: tl.tensor,
    d_hidden: tl.tensor,
    output: tl.tensor,
    d_raw: tl.tensor,
    d_output_stride: tl.tensor,
    d_hidden_stride: tl.tensor,
    output_stride: tl.tensor,
    d_raw_stride: tl.tensor,
    numbers: tl.tensor,
    width: tl.tensor,
    CLIP: tl.constexpr,
    TYPE: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Compute the gradient before the clip from the gradients of the output and of the next step, (active, P) each."""
    direction = tl.program_id(1).to(tl.int64)
    d_output += direction * d_output_stride
    d_hidden += direction * d_hidden_stride
    output += direction * output_stride
    d_raw += direction * d_raw_stride
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = n < numbers
    d_h = _load(d_output, n, here, TYPE) + _load(d_hidden, n, here, TYPE)
    tl.store(d_raw + n, _stop_at_clip(d_h, _load(output, n, here, TYPE), CLIP, TYPE), mask=here)


@triton.jit(
    do_not_specialize=[
        "numbers",
        "activations_stride",
        "before_stride",
        "after_stride",
        "d_cell_output_stride",
        "d_cell_stride",
        "d_gates_stride",
    ]
)
def cell_backward(
    activations: tl.tensor,
    before: tl.tensor,
    after: tl.tensor,
    d_cell_output: tl.tensor,
    d_cell: tl.tensor,
    d_gates: tl.tensor,
    activations_stride: tl.tensor,
    before_stride: tl.tensor,
    after_stride: tl.tensor,
    d_cell_output_stride: tl.tensor,
    d_cell_stride: tl.tensor,
    d_gates_stride: tl.tensor,
    numbers: tl.tensor,
    width: tl.tensor,
    CLIP: tl.constexpr,
    TYPE: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Compute the gradients of the gates (active, 4H) and of `before` from those of o·tanh c and of `after`."""
    direction = tl.program_id(1).to(tl.int64)
    activations += direction * activations_stride
    before += direction * before_stride
    after += direction * after_stride
    d_cell_output += direction * d_cell_output_stride
    d_cell += direction * d_cell_stride
    d_gates += direction * d_gates_stride
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = n < numbers
    first = n + 3 * (n // width) * width  # the positions of i in (active, 4H)
    i = _load(activations, first, here, TYPE)
    f = _load(activations, first + width, here, TYPE)
    g = _load(activations, first + 2 * width, here, TYPE)
    o = _load(activations, first + 3 * width, here, TYPE)
    c = _load(after, n, here, TYPE)
    tanh_c = _tanh(c)
    d_h = _load(d_cell_output, n, here, TYPE)
    d_c = _load(d_cell, n, here, TYPE) + d_h * o * (1 - tanh_c * tanh_c)
    d_c = _stop_at_clip(d_c, c, CLIP, TYPE)
    tl.store(d_gates + first, d_c * g * i * (1 - i), mask=here)
    tl.store(d_gates + first + width, d_c * _load(before, n, here, TYPE) * f * (1 - f), mask=here)
    tl.store(d_gates + first + 2 * width, d_c * i * (1 - g * g), mask=here)
    tl.store(d_gates + first + 3 * width, d_h * tanh_c * o * (1 - o), mask=here)
    tl.store(d_cell + n, d_c * f, mask=here)


@triton.jit
def _load(values: tl.tensor, positions: tl.tensor, here: tl.tensor, TYPE: tl.constexpr) -> tl.tensor:
    return tl.load(values + positions, mask=here, other=0.0).to(TYPE)


@triton.jit
def _sigmoid(x: tl.tensor) -> tl.tensor:
    small = tl.exp(-tl.abs(x))  # never overflows
    return tl.where(x < 0, small, 1.0) / (1 + small)


@triton.jit
def _tanh(x: tl.tensor) -> tl.tensor:
    """Compute tanh by exp, and near zero, where that is imprecise, by Lambert's continued fraction (1770)."""
    square = x * x
    near = x / (1 + square / (3 + square / (5 + square / (7 + square / (9 + square / 11)))))
    small = tl.exp(-2 * tl.abs(x))
    far = (1 - small) / (1 + small)
    return tl.where(tl.abs(x) < 0.25, near, tl.where(x < 0, -far, far))


@triton.jit
def _clip(x: tl.tensor, CLIP: tl.constexpr, TYPE: tl.constexpr) -> tl.tensor:
    if CLIP is not None:
        bound = tl.full((), CLIP, TYPE)
        x = tl.where(x > bound, bound, tl.where(x < -bound, -bound, x))
    return x


@triton.jit
def _stop_at_clip(gradient: tl.tensor, clipped: tl.tensor, CLIP: tl.constexpr, TYPE: tl.constexpr) -> tl.tensor:
    """Return the gradient, set to zero where the clipped value is at its bound."""
    if CLIP is not None:
        gradient = tl.where(tl.abs(clipped) < tl.full((), CLIP, TYPE), gradient, 0.0)
    return gradient
