"""Multiply rows by a weight, x Wᵀ + b, by the fastest routine of this processor.

`Prepared` multiplies many times without gradients. `linear` and `Linear` are those of `torch.nn`, with gradients.

Two libraries come with PyTorch. MKL computes `torch.bmm` and `torch.nn.functional.linear`. It has its best routines for
Intel's processors, and is slower on others. oneDNN, which we call by the operators of `torch.compile`, is as fast
everywhere, but a call takes longer, above all with a weight that is not prepacked. `fastest_way` chooses by the maker
of the processor, as MKL itself does, by the size and the type of the weight and by the number of rows, and by nothing
else. So a batch has the same bits in every run, whatever was computed before. `python -m benchmarks.rule` prints the
times that `ROWS_BY_MKL` is taken from.
"""

import sys
from collections.abc import Callable, Sequence
from copy import copy
from enum import Enum, auto
from functools import cache, partial
from typing import Any, Optional

import torch
from torch import Tensor, nn

from elmo_plugin.tensors.int8 import Int8Weight
from elmo_plugin.tensors.number_types import is_intel, product_type
from elmo_plugin.tensors.outside_of_graphs import outside_of_graphs

ANY = sys.maxsize
FEW = 32
"""The number of rows that oneDNN chooses its layout for. With more, MKL's last bits depend on the threads in AVX2."""
TINY = 2**16
"""The numbers of a tiny weight, up to which a call of oneDNN takes longer than the product."""
SMALL = 2**20
"""The numbers of a small weight, 4 MiB in float32. A frozen one is copied for both libraries."""

ROWS_BY_MKL = {"Intel, AVX-512": (ANY, ANY), "AVX2": (FEW, FEW), "others": (FEW, 1)}
"""The most rows that MKL multiplies by a small weight (O, I) in float32, with O ≤ I and with O > I.

By a tiny weight it multiplies any number of rows, and by a large one a single row. oneDNN multiplies all others.
"""
WORTH_COPYING = {torch.float32: 32, torch.bfloat16: 8}
"""The types that oneDNN multiplies, and the number of products from which it pays to copy a weight for them alone."""

PADDING = 16
"""Numbers between the rows of a copy: rows that are 2^n bytes apart replace each other in the processor's cache."""
ROWS_TOGETHER = 4
"""Away from Intel's processors, MKL rounds rows that are left over in another way. Which these are depends on the
number of threads."""
BLOCK_ROWS = 256
"""The rows of a large weight that are multiplied by one value together. All at once take twice as long."""


class Way(Enum):
    """A way to multiply by a weight."""

    MKL_COPY = auto()  # all directions in one call, by a float32 copy
    MKL = auto()
    ONEDNN_COPY = auto()  # by a copy in oneDNN's own layout
    ONEDNN = auto()
    TORCH = auto()
    INT8 = auto()


@cache
def mkl_is_fast() -> bool:
    """Return whether MKL runs its best routines on this processor: it asks, as we do, whether Intel made it."""
    return torch.backends.mkl.is_available() and is_intel()


@cache
def rule() -> tuple[int, int]:
    """Return the rule for this processor."""
    if torch.backends.cpu.get_cpu_capability() == "AVX2":
        return ROWS_BY_MKL["AVX2"]
    return ROWS_BY_MKL["Intel, AVX-512" if mkl_is_fast() else "others"]


def fastest_way(weight: Tensor, rows: int, is_kept: bool = False, times: int = 1) -> Way:
    """Return the fastest way to multiply at most `rows` rows by a weight, `times` times.

    A weight that `is_kept` is worth a copy, however often it is used for these rows.
    """
    dtype, size = product_type(weight), weight.numel()
    if isinstance(weight, Int8Weight):
        return Way.INT8
    if weight.device.type != "cpu" or not has_onednn(dtype):
        return Way.TORCH
    wide, tall = rule()
    is_small, is_kept = size <= SMALL, is_kept or times >= WORTH_COPYING[dtype]
    most_by_small = wide if weight.size(0) <= weight.size(1) else tall
    most = ANY if size <= TINY else most_by_small if is_small else 1
    if dtype == torch.float32 and rows <= most:
        return Way.MKL_COPY if is_kept and is_small else Way.MKL
    if dtype == weight.dtype != torch.float32 and rows <= 1 and is_kept and is_small:
        return Way.MKL_COPY  # to convert a row to bfloat16 and back takes longer than it saves
    return Way.ONEDNN_COPY if is_kept else Way.ONEDNN


class Prepared:
    """The weights (O, I) of all directions, prepared for many products in one way. It is a `Product`.

    # Parameters

    weights : `Sequence[Tensor]`
        Weights of one size and one type.
    way : `Way`
    biases : `Sequence[Optional[Tensor]]`
        The bias (O,) of each direction; none by default. With biases, only `one` may be called.
    is_recurrent : `bool`
        Whether these are the recurrent weights of an LSTM. In 8 bits they are multiplied by values of 7 bits. Errors of
        other products go straight into the outputs, so their values have 13 bits.
    """

    def __init__(
        self,
        weights: Sequence[Tensor],
        way: Way,
        biases: Sequence[Optional[Tensor]] = (None, None),
        is_recurrent: bool = False,
    ) -> None:
        self.weights = weights
        self.dtype = torch.float32 if way is Way.MKL_COPY else product_type(weights[0])
        self._stacked = _stack(weights) if way is Way.MKL_COPY else None  # (R, I, O)
        self._one: list[Callable[..., Tensor]] = []
        for direction, (weight, bias) in enumerate(zip(weights, biases, strict=False)):
            if self._stacked is not None:
                weight = self._stacked[direction].t()
            elif way is not Way.INT8:
                weight = weight.detach().to(self.dtype)
            if way is Way.ONEDNN_COPY:
                weight = torch.ops.mkldnn._reorder_linear_weight(weight, FEW)
            bias = None if bias is None else bias.detach().to(self.dtype)
            multiply = partial(FUNCTIONS[way], weight=weight, bias=bias)
            self._one.append(weight.product if isinstance(weight, Int8Weight) and is_recurrent else multiply)

    def one(self, direction: int, values: Tensor, out: Optional[Tensor] = None) -> Tensor:
        """Return x Wᵀ + b in one direction, (N, I) to (N, O), of type `dtype`."""
        multiply, values = self._one[direction], values.to(self.dtype)
        if self._stacked is not None:
            return multiply(values, out=out)
        return multiply(values) if out is None else out.copy_(multiply(values))

    def __call__(self, values: Tensor, start: Optional[Tensor] = None, out: Optional[Tensor] = None) -> Tensor:
        """Return start + x Wᵀ; see `elmo_plugin.lstm.Product`."""
        out = values.new_empty(*values.shape[:2], self.weights[0].size(0)) if out is None else out  # (R, N, O)
        values = values.to(self.dtype)
        if self._stacked is None:
            for direction, multiply in enumerate(self._one):
                product = multiply(values[direction])  # (N, O)
                if start is None:
                    out[direction].copy_(product)
                else:
                    torch.add(start[direction], product.to(out.dtype), out=out[direction])
            return out
        padded = _padded(values)
        if padded is values and out.dtype == self.dtype:
            if start is None:
                return torch.bmm(values, self._stacked, out=out)
            return torch.baddbmm(start.to(self.dtype), values, self._stacked, out=out)
        product = torch.bmm(padded, self._stacked)[:, : values.size(1)]  # (R, N, O)
        return out.copy_(product) if start is None else torch.add(start, product, out=out)

    def only(self, direction: int) -> "Prepared":
        """Return the product of one direction, which shares the copies of the weights."""
        part, some = copy(self), slice(direction, direction + 1)
        part.weights, part._one = self.weights[some], self._one[some]
        part._stacked = None if self._stacked is None else self._stacked[some]
        return part


def _stack(weights: Sequence[Tensor]) -> Tensor:
    """Return float32 copies of weights (O, I) for `torch.bmm`, as (R, I, O)."""
    stacked = torch.stack([weight.detach().float().t() for weight in weights])  # (R, I, O)
    if mkl_is_fast():
        return stacked
    if stacked.size(2) <= stacked.size(1):  # it reads a weight along its longer side
        return stacked.mT.contiguous().mT
    return nn.functional.pad(stacked, (0, PADDING))[..., : stacked.size(2)]


def _padded(values: Tensor) -> Tensor:
    """Add rows of zeros to values (…, N, I) where MKL would round those that are left over in another way."""
    rows = values.size(-2)
    if mkl_is_fast() or rows <= ROWS_TOGETHER or rows % ROWS_TOGETHER == 0:
        return values
    return nn.functional.pad(values, (0, 0, 0, -rows % ROWS_TOGETHER))


def _by_mkl(values: Tensor, weight: Tensor, bias: Optional[Tensor], out: Optional[Tensor] = None) -> Tensor:
    if mkl_is_fast():  # by `torch.bmm`, whose bits depend on the number of threads least
        values, columns = values.unsqueeze(0), weight.t().unsqueeze(0)  # (1, N, I), (1, I, O)
        to = None if out is None else out.unsqueeze(0)  # (1, N, O)
        if bias is None:
            return torch.bmm(values, columns, out=to).squeeze(0)
        return torch.baddbmm(bias, values, columns, out=to).squeeze(0)
    if len(values) == 1 and bias is None and weight.size(0) % BLOCK_ROWS == 0:
        blocks = weight.reshape(-1, BLOCK_ROWS, weight.size(1))
        product = torch.bmm(blocks, values.t().expand(len(blocks), -1, -1)).view(1, -1)
    else:
        product = nn.functional.linear(_padded(values), weight, bias)[: len(values)]
    return product if out is None else out.copy_(product)


def _by_onednn(values: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    """Multiply by a weight that may be prepacked."""
    return torch.ops.mkldnn._linear_pointwise(values, weight, bias, "none", [], "")


FUNCTIONS: dict[Way, Callable[..., Tensor]] = {
    Way.MKL_COPY: _by_mkl,
    Way.MKL: _by_mkl,
    Way.ONEDNN_COPY: _by_onednn,
    Way.ONEDNN: _by_onednn,
    Way.TORCH: nn.functional.linear,
    Way.INT8: lambda values, weight, bias: weight.precise_product(values, bias),
}


@cache
def has_onednn(dtype: torch.dtype) -> bool:
    """Return whether this build of PyTorch and this processor can run oneDNN's product in this type, by trying it."""
    if dtype not in WORTH_COPYING or not torch.backends.mkldnn.is_available():
        return False
    ones = torch.ones(2, 2, dtype=dtype)
    try:
        found = _by_onednn(ones, torch.ops.mkldnn._reorder_linear_weight(ones, FEW), None)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return bool((found == 2).all())


def multiply(values: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """Multiply values (N, I) by a weight (O, I) of the same type once, to (N, O)."""
    return FUNCTIONS[fastest_way(weight, len(values))](values, weight=weight, bias=bias)


@outside_of_graphs  # inductor cannot compile oneDNN's product with a weight that is not a constant
def linear(values: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """Compute `torch.nn.functional.linear`, autocast included: values (N, I), weight (O, I), bias (O,) to (N, O)."""
    dtype = product_type(weight)
    if not torch.is_grad_enabled():
        weight = weight if isinstance(weight, Int8Weight) else weight.detach().to(dtype)
        return multiply(values.to(dtype), weight, None if bias is None else bias.to(dtype))
    if dtype == values.dtype == weight.dtype and _is_ours(values):
        return _Linear.apply(values, weight, bias)
    return nn.functional.linear(values, weight, bias)


def weight_gradient(d_outputs: Tensor, values: Tensor) -> Tensor:
    """Return the gradient (O, I) of a weight: dYᵀ X, from dY (N, O) and X (N, I)."""
    # oneDNN is slower with swapped operands if O > I.
    return multiply(values.t(), d_outputs.t()).t() if _is_ours(values) else d_outputs.t() @ values


def _is_ours(values: Tensor) -> bool:
    """Return whether we multiply these values faster than PyTorch, which does it by MKL in float32."""
    return values.dtype == torch.float32 and not mkl_is_fast() and fastest_way(values, len(values)) is not Way.TORCH


class Linear(nn.Linear):
    """A `torch.nn.Linear` for two-dimensional values."""

    def forward(self, input: Tensor) -> Tensor:
        """Map values (N, I) to (N, O)."""
        return linear(input, self.weight, self.bias)


class _Linear(torch.autograd.Function):
    """Y = X Wᵀ + b; dX = dY W, dW = dYᵀ X, db = the sum of dY over rows."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        """Map values (N, I) to (N, O) by weight (O, I) and bias (O,)."""
        ctx.save_for_backward(values, weight)
        return multiply(values, weight.detach(), bias)

    @staticmethod
    def backward(ctx: Any, d_output: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradients of `values`, `weight` and `bias`."""
        values, weight = ctx.saved_tensors
        needed = ctx.needs_input_grad
        if torch.is_grad_enabled():  # second derivatives: only torch's operators can be differentiated again
            return d_output @ weight, d_output.t() @ values, d_output.sum(dim=0) if needed[2] else None
        d_values = multiply(d_output, weight.detach().t()) if needed[0] else None
        d_weight = weight_gradient(d_output, values) if needed[1] else None
        return d_values, d_weight, d_output.sum(dim=0) if needed[2] else None
