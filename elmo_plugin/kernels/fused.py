"""The Triton kernels of one time step: all that stands between two matrix products, forward and backward.

Each computes a number of (B, H) or (B, P) in each lane. Tensors are contiguous; those of a whole sequence come whole,
(T, B, ·), with the step t, so that a launch makes no views. They use `tl` alone, as Triton's interpreter wants it.

Of a stack whose layers run side by side each shape has n_layers before B, and t is a round: layer k does step t − k.
"""

from math import prod
from typing import Any, Optional, Union

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256
"""Numbers that one program computes."""


def launch(
    kernel: Any,
    like: Tensor,
    t: int,
    clip: Optional[float],
    *arguments: Union[Tensor, int, None],
    **constants: int,
) -> None:
    """Run a kernel for step t on each number of `like`, (B, ·) or (n_layers, B, ·).

    It computes in float64 where a tensor is of that type.
    """
    precise = any(isinstance(one, Tensor) and one.dtype == torch.float64 for one in arguments)
    grid = (triton.cdiv(like.numel(), BLOCK),)
    *layers, batch, width = like.shape
    dtype = tl.float64 if precise else tl.float32
    kernel[grid](*arguments, t, prod(layers), batch, width, CLIP=clip, TYPE=dtype, BLOCK=BLOCK, **constants)


def check_device(device: torch.device, kernel: str) -> None:
    """Raise `ValueError`, in a kernel's name, where these kernels cannot run."""
    if device.type != "cuda" and isinstance(cell_forward, triton.runtime.JITFunction):
        wanted = "a CUDA device, or TRITON_INTERPRET=1 before it is first used"
        raise ValueError(f"kernel {kernel!r} wants {wanted}; found {str(device)!r}")


@triton.jit(do_not_specialize=["t"])
def cell_forward(
    gates: tl.tensor,
    gates_stride: tl.tensor,
    recurrent: tl.tensor,
    lengths: tl.tensor,
    activations: tl.tensor,
    cells: tl.tensor,
    emitted: tl.tensor,
    t: tl.tensor,
    layers: tl.tensor,
    batch: tl.tensor,
    width: tl.tensor,
    CLIP: tl.constexpr,
    TYPE: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """From pre-activations (B, 4H), in two summands, to the cell and o tanh c (B, H).

    `gates_stride` is what lies between two steps of the first summand; 0 where that is the same in each.
    Where no `activations` are kept, there is one cell (B, H), and it is written over.
    """
    n, row, here, start = _places(t, layers, batch, width, BLOCK)
    first = n + 3 * row * width  # places of i in (B, 4H)
    gates += t.to(tl.int64) * gates_stride
    i = _sigmoid(_load_sum(gates, recurrent, first, here, TYPE))
    f = _sigmoid(_load_sum(gates, recurrent, first + width, here, TYPE))
    g = _tanh(_load_sum(gates, recurrent, first + 2 * width, here, TYPE))
    o = _sigmoid(_load_sum(gates, recurrent, first + 3 * width, here, TYPE))
    after = cells
    if activations is not None:
        activations += 4 * start
        tl.store(activations + first, i, mask=here)
        tl.store(activations + first + width, f, mask=here)
        tl.store(activations + first + 2 * width, g, mask=here)
        tl.store(activations + first + 3 * width, o, mask=here)
        cells += start
        after = cells + layers * batch * width
    before = _load(cells, n, here, TYPE)
    c = _clip(f * before + i * g, CLIP, TYPE)
    is_live = _is_live(t, row, lengths, batch, here)
    tl.store(after + n, tl.where(is_live, c, before), mask=here)
    tl.store(emitted + n, o * _tanh(c), mask=here)


@triton.jit(do_not_specialize=["t"])
def output_forward(
    raw: tl.tensor,
    hiddens: tl.tensor,
    cast_hiddens: tl.tensor,
    t: tl.tensor,
    layers: tl.tensor,
    batch: tl.tensor,
    width: tl.tensor,
    CLIP: tl.constexpr,
    TYPE: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """From the output (B, P) to the clipped one, in the state's type and in that of products."""
    n, _, here, start = _places(t, layers, batch, width, BLOCK)
    after = start + layers * batch * width + n
    h = _clip(_load(raw, n, here, TYPE), CLIP, TYPE)
    tl.store(hiddens + after, h, mask=here)
    tl.store(cast_hiddens + after, h, mask=here)


@triton.jit(do_not_specialize=["t"])
def output_backward(
    hiddens: tl.tensor,
    d_hiddens: tl.tensor,
    d_hidden: tl.tensor,
    d_raw: tl.tensor,
    t: tl.tensor,
    layers: tl.tensor,
    batch: tl.tensor,
    width: tl.tensor,
    CLIP: tl.constexpr,
    TYPE: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """From the gradients (B, P) of the clipped output, those given and the next step's, to that before the clip."""
    n, _, here, start = _places(t, layers, batch, width, BLOCK)
    after = start + layers * batch * width + n
    d_h = _load(d_hiddens, after, here, TYPE) + _load(d_hidden, n, here, TYPE)
    d_h = _stop_at_clip(d_h, _load(hiddens, after, here, TYPE), CLIP, TYPE)
    tl.store(d_raw + start + n, d_h, mask=here)


@triton.jit(do_not_specialize=["t"])
def cell_backward(
    activations: tl.tensor,
    cells: tl.tensor,
    lengths: tl.tensor,
    d_emitted: tl.tensor,
    d_cell: tl.tensor,
    d_gates: tl.tensor,
    t: tl.tensor,
    layers: tl.tensor,
    batch: tl.tensor,
    width: tl.tensor,
    CLIP: tl.constexpr,
    TYPE: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """From the gradients (B, H) of o tanh c and of the cell, one step back, to the gates' (B, 4H)."""
    n, row, here, start = _places(t, layers, batch, width, BLOCK)
    first = 4 * start + n + 3 * row * width  # places of i in (T, B, 4H)
    is_live = here & _is_live(t, row, lengths, batch, here)
    i = _load(activations, first, here, TYPE)
    f = _load(activations, first + width, here, TYPE)
    g = _load(activations, first + 2 * width, here, TYPE)
    o = _load(activations, first + 3 * width, here, TYPE)
    before, c = _load(cells, start + n, here, TYPE), _load(cells, start + layers * batch * width + n, here, TYPE)
    tanh_c = _tanh(c)
    d_h = _load(d_emitted, n, is_live, TYPE)
    d_c = _load(d_cell, n, is_live, TYPE) + d_h * o * (1 - tanh_c * tanh_c)
    d_c = _stop_at_clip(d_c, c, CLIP, TYPE)
    tl.store(d_gates + first, d_c * g * i * (1 - i), mask=here)
    tl.store(d_gates + first + width, d_c * before * f * (1 - f), mask=here)
    tl.store(d_gates + first + 2 * width, d_c * i * (1 - g * g), mask=here)
    tl.store(d_gates + first + 3 * width, d_h * tanh_c * o * (1 - o), mask=here)
    tl.store(d_cell + n, d_c * f, mask=is_live)


@triton.jit(do_not_specialize=["t"])
def stack_output_forward(
    raw: tl.tensor,
    drops: tl.tensor,
    hiddens: tl.tensor,
    stacked: tl.tensor,
    t: tl.tensor,
    layers: tl.tensor,
    batch: tl.tensor,
    width: tl.tensor,
    SUMMED: tl.constexpr,
    CLIP: tl.constexpr,
    TYPE: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """From all layers' outputs (n_layers, B, P) to the clipped ones, and to what is read in the next round.

    That is `stacked` (n_layers, B, 2P), an input beside a hidden: each layer's own output, and above it the sum of the
    outputs of one token by the `SUMMED` layers below, each without what was dropped on the way from it.
    """
    n, row, here, start = _places(t, layers, batch, width, BLOCK)
    step = layers * batch * width
    has_begun = t >= row // batch
    h = tl.where(has_begun, _clip(_load(raw, n, here, TYPE), CLIP, TYPE), _load(hiddens, start + n, here, TYPE))
    tl.store(hiddens + start + step + n, h, mask=here)
    stacked += 2 * (start + step)
    tl.store(stacked + n + (row + 1) * width, h, mask=here)
    left = tl.full((BLOCK,), 1.0, TYPE)
    for below in tl.static_range(1, SUMMED):  # which did this token one round earlier each
        is_there = here & has_begun & (row >= below * batch)
        place = start + n - below * (step + batch * width)
        if drops is not None:
            left *= _load(drops, place, is_there, TYPE)
        h += left * _load(hiddens, place + step, is_there, TYPE)
    if drops is not None:
        h *= _load(drops, start + n, here, TYPE)
    tl.store(stacked + n + (row + 2 * batch) * width, h, mask=here & (row + batch < layers * batch))


@triton.jit(do_not_specialize=["t"])
def stack_output_backward(
    hiddens: tl.tensor,
    d_hiddens: tl.tensor,
    drops: tl.tensor,
    d_stacked: tl.tensor,
    d_raw: tl.tensor,
    t: tl.tensor,
    layers: tl.tensor,
    batch: tl.tensor,
    width: tl.tensor,
    SUMMED: tl.constexpr,
    CLIP: tl.constexpr,
    TYPE: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """From the gradients of the clipped outputs, those given and those of later rounds, to those before the clip."""
    n, row, here, start = _places(t, layers, batch, width, BLOCK)
    step = layers * batch * width
    read = 2 * (start + step) + n + row * width  # places in (n_layers, B, 2P) of the next round
    d_h = _load(d_hiddens, start + step + n, here, TYPE) + _load(d_stacked, read + width, here, TYPE)
    left = tl.full((BLOCK,), 1.0, TYPE)
    for above in tl.static_range(1, SUMMED + 1):  # which did this token one round later each
        is_there = here & (row + above * batch < layers * batch)
        if drops is not None:
            left *= _load(drops, start + n + (above - 1) * (step + batch * width), is_there, TYPE)
        d_h += left * _load(d_stacked, read + 2 * (above - 1) * step + 2 * above * batch * width, is_there, TYPE)
    d_h = _stop_at_clip(d_h, _load(hiddens, start + step + n, here, TYPE), CLIP, TYPE)
    tl.store(d_raw + start + n, tl.where(t >= row // batch, d_h, 0.0), mask=here)


@triton.jit
def _places(t: tl.tensor, layers: tl.tensor, batch: tl.tensor, width: tl.tensor, BLOCK: tl.constexpr) -> tl.tensor:
    """This program's places in a step (B, ·), their rows, which of them exist, and where step t starts in (T, B, ·)."""
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    return n, n // width, n < layers * batch * width, t.to(tl.int64) * layers * batch * width


@triton.jit
def _is_live(t: tl.tensor, row: tl.tensor, lengths: tl.tensor, batch: tl.tensor, here: tl.tensor) -> tl.tensor:
    """Whether a row has a token in this step of its layer."""
    token = t - row // batch
    return (token >= 0) & (token < tl.load(lengths + row, mask=here, other=0))


@triton.jit
def _load(values: tl.tensor, places: tl.tensor, here: tl.tensor, TYPE: tl.constexpr) -> tl.tensor:
    return tl.load(values + places, mask=here, other=0.0).to(TYPE)


@triton.jit
def _load_sum(one: tl.tensor, other: tl.tensor, places: tl.tensor, here: tl.tensor, TYPE: tl.constexpr) -> tl.tensor:
    """Of two tensors; summed in `TYPE`."""
    value = tl.load(one + places, mask=here, other=0.0).to(TYPE)
    return value + tl.load(other + places, mask=here, other=0.0).to(TYPE)


@triton.jit
def _sigmoid(x: tl.tensor) -> tl.tensor:
    small = tl.exp(-tl.abs(x))  # never overflows
    return tl.where(x < 0, small, 1.0) / (1 + small)


@triton.jit
def _tanh(x: tl.tensor) -> tl.tensor:
    """By exp where that is precise, and near zero by Lambert's continued fraction (1770)."""
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
    """Zero where the value lies at its bound."""
    if CLIP is not None:
        gradient = tl.where(tl.abs(clipped) < tl.full((), CLIP, TYPE), gradient, 0.0)
    return gradient
