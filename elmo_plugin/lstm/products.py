"""Compute x Wᵀ + b by the fastest routine of this processor, without gradients. `linear` and `Linear` add gradients.

On a CPU, PyTorch computes float32 products with MKL, which reaches half the speed of an AMD processor. oneDNN, which
comes with PyTorch, reaches all of it. We call oneDNN through the operators that `torch.compile` uses.
"""

import platform
from collections.abc import Callable, Collection
from functools import cache, partial
from math import gcd
from typing import Any, NamedTuple, Optional, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.weak import WeakIdKeyDictionary

from elmo_plugin.lstm.int8 import Int8Weight

Module = TypeVar("Module", bound=nn.Module)

NUMBER_TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def number_type(name: str, key: str = "precision", allowed: Collection[str] = tuple(NUMBER_TYPES)) -> torch.dtype:
    """Return PyTorch's type of that name. Raises a `ValueError` that names `key` if the name is not allowed."""
    if name not in allowed:
        *others, last = map(repr, allowed)
        raise ValueError(f"'{key}': expected {', '.join(others)} or {last}, got {name!r}")
    return NUMBER_TYPES[name]


WORTH_PACKING = {torch.float32: 32, torch.bfloat16: 8}
"""The number of products from which it pays to prepack a weight for the processor's caches."""

PROBE_WIDTH = 8192
"""The length of the random vector whose products with a weight are its `Version`."""
PROBED_AT_ONCE = 2**18
"""The numbers of a weight that are converted at once, so that they stay in the processor's caches."""


class Version:
    """Identifies the content of a weight: versions are equal if it was not replaced, moved or written to in between.

    PyTorch counts most writes, but not those through `.data` and `.numpy()`, which AllenNLP's initializers use. So a
    version also holds the weight's products with a random vector. A write that changes them by less than rounding
    changes a layer's outputs by no more. Computing them takes as long as one time step of one sentence.

    A version keeps the storage alive, so that no other weight can get the same address.
    """

    def __init__(self, weight: Tensor) -> None:
        self._packed = None
        if isinstance(weight, Int8Weight):  # every write packs it again
            self._packed, weight = weight.packed, torch.empty(0)
        self._storage = weight.detach()
        self._writes = 0 if weight.is_inference() else weight._version
        self._products = _probe(self._storage)

    def __eq__(self, other: object) -> bool:
        """Return whether both identify the same weight with the same content."""
        return (
            isinstance(other, Version)
            and self._packed is other._packed
            and self._storage.data_ptr() == other._storage.data_ptr()
            and self._storage.dtype == other._storage.dtype
            and self._writes == other._writes
            and torch.equal(self._products, other._products)
        )

    __hash__ = None  # type: ignore[assignment]


@torch.no_grad()
def _probe(weight: Tensor) -> Tensor:
    """Return the products of a random vector with the rows of a weight, reshaped to at most `PROBE_WIDTH` columns."""
    width = gcd(weight.numel(), PROBE_WIDTH)
    rows = weight.reshape(-1, width)
    vector = _random_vector(weight.device, torch.promote_types(weight.dtype, torch.float32))[:width]
    products = rows.new_empty(len(rows), dtype=vector.dtype)
    at_once = PROBED_AT_ONCE // width
    for some, out in zip(rows.split(at_once), products.split(at_once), strict=True):
        torch.mv(some.to(vector.dtype), vector, out=out)  # autocast leaves `out=` alone
    return products


@cache
def _random_vector(device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return `PROBE_WIDTH` random numbers from 1 to 2, the same at every call."""
    drawn = torch.rand(PROBE_WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (drawn + 1).to(dtype).to(device)  # in this order: not every device has float64


class Packed(NamedTuple):
    """A frozen weight prepacked for oneDNN, and the version of the weight it was made from."""

    weight: Tensor
    made_from: Version


_packed = WeakIdKeyDictionary()  # by weight, until the weight is deleted


def product(values: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """Multiply values (N, I) by a weight (O, I) of the same type, which may be prepacked, to (N, O)."""
    return product_with(weight, bias)(values)  # (N, O)


def product_with(weight: Tensor, bias: Optional[Tensor] = None) -> Callable[[Tensor], Tensor]:
    """Return a function from values to `product(values, weight, bias)`, for a weight that is used often."""
    if isinstance(weight, Int8Weight):
        # A recurrent weight (4H, P) is the largest one. Errors of a projection (P, H) go straight into the outputs.
        is_recurrent = bias is None and weight.size(0) > weight.size(1)
        return weight.product if is_recurrent else partial(weight.precise_product, bias=bias)
    if not _is_for_onednn(weight):
        return partial(functional.linear, weight=weight, bias=bias)
    operator = torch.ops.mkldnn._linear_pointwise.default
    return partial(operator, W=weight, B=bias, attr="none", scalars=[], algorithm="")


def weight_gradient(d_outputs: Tensor, values: Tensor) -> Tensor:
    """Return the gradient (O, I) of the weight of `product`: dYᵀ X, from dY (N, O) and X (N, I)."""
    if not runs_faster(values):
        return d_outputs.t() @ values
    return product(values.t(), d_outputs.t()).t()  # oneDNN is slower with swapped operands if O > I


def pack(weight: Tensor, rows: int, times: int, keep: bool = False) -> Tensor:
    """Prepack a weight for `times` products with about `rows` rows each, or return it as it is if that does not pay.

    A prepacked weight is returned as it is. With `keep`, the prepacked copy of a frozen weight is kept in memory for
    later calls.
    """
    if rows < 2 or weight.is_mkldnn or isinstance(weight, Int8Weight) or not _is_for_onednn(weight):
        return weight
    if not keep or weight.requires_grad or weight.is_inference():
        return _reorder(weight, rows) if times >= WORTH_PACKING[weight.dtype] else weight
    kept, version = _packed.get(weight), Version(weight)
    if kept is None or kept.made_from != version:
        kept = _packed[weight] = Packed(_reorder(weight, rows), version)
    return kept.weight


def _reorder(weight: Tensor, rows: int) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach(), rows)


def product_type(values: Tensor) -> torch.dtype:
    """Return the number type of matrix products with `values`: autocast's on their device, or else their own."""
    device = values.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else values.dtype


@cache
def has_native_bfloat16() -> bool:
    """Return whether this processor has instructions for bfloat16 products that oneDNN uses."""
    if not torch.backends.mkldnn.is_available() or not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    # On x86 oneDNN accepts any AVX-512, but emulates without AVX512-BF16, which all processors with AMX have too.
    return platform.machine() not in ("x86_64", "AMD64") or torch.cpu._is_avx512_bf16_supported()


def runs_faster(values: Tensor) -> bool:
    """Return whether `product` is faster than PyTorch's own on tensors like this. In bfloat16 both use oneDNN."""
    return values.dtype == torch.float32 and _is_for_onednn(values)


def _is_for_onednn(values: Tensor) -> bool:
    return values.device.type == "cpu" and _has_onednn(values.dtype)


@cache
def _has_onednn(dtype: torch.dtype) -> bool:
    """Return whether this build of PyTorch and this processor can run oneDNN's product in this type, by trying it."""
    if dtype not in WORTH_PACKING or not torch.backends.mkldnn.is_available():
        return False
    ones = torch.ones(2, 2, dtype=dtype)
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(ones, 2)
        found = torch.ops.mkldnn._linear_pointwise(ones, packed, None, "none", [], "")
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return bool((found == 2).all())


@torch.compiler.disable(reason="inductor cannot compile oneDNN's product with a weight that is not a constant")
def linear(values: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """Compute `torch.nn.functional.linear`, autocast included: values (N, I), weight (O, I), bias (O,) to (N, O)."""
    if not torch.is_grad_enabled():
        dtype = product_type(weight)
        values, weight, bias = values.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
        if isinstance(weight, Int8Weight):
            return weight.precise_product(values, bias)
        return product(values, weight, bias)
    is_ours = not isinstance(weight, Int8Weight) and runs_faster(values)
    if product_type(values) == values.dtype == weight.dtype and len(values) and is_ours:
        output: Tensor = _Linear.apply(values, weight, bias)
        return output
    return functional.linear(values, weight, bias)


class Linear(nn.Linear):
    """A `torch.nn.Linear` for two-dimensional values."""

    def forward(self, input: Tensor) -> Tensor:
        """Map values (N, I) to (N, O)."""
        return linear(input, self.weight, self.bias)


def with_linear(module: Module) -> Module:
    """Replace each `torch.nn.Linear` in a module by a `Linear` with the same parameters, and return the module."""
    for name, child in module.named_children():
        if type(child) is nn.Linear:
            ours = Linear(child.in_features, child.out_features, child.bias is not None, device="meta")
            ours.weight, ours.bias = child.weight, child.bias
            setattr(module, name, ours)
        else:
            with_linear(child)
    return module


class _Linear(torch.autograd.Function):
    """Y = X Wᵀ + b; dX = dY W, dW = dYᵀ X, db = the sum of dY over rows."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        """Map values (N, I) to (N, O) by weight (O, I) and bias (O,)."""
        ctx.save_for_backward(values, weight)
        return product(values, weight, bias)

    @staticmethod
    def backward(ctx: Any, d_output: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradients of `values`, `weight` and `bias`."""
        values, weight = ctx.saved_tensors
        needed = ctx.needs_input_grad
        if torch.is_grad_enabled():  # second derivatives: only torch's operators can be differentiated again
            return d_output @ weight, d_output.t() @ values, d_output.sum(dim=0) if needed[2] else None
        d_values = product(d_output, weight.t()) if needed[0] else None
        d_weight = weight_gradient(d_output, values) if needed[1] else None
        return d_values, d_weight, d_output.sum(dim=0) if needed[2] else None
