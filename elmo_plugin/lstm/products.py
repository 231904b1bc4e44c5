"""Compute x Wᵀ + b by the fastest routine of this processor, without gradients. `linear` and `Linear` add gradients.

On a CPU, PyTorch computes float32 products with MKL, which reaches half the speed of an AMD processor. oneDNN, which
comes with PyTorch, reaches all of it for two rows and more. We call oneDNN through the operators that `torch.compile`
uses. A call of it takes longer than a small product, above all with a weight that is not prepacked, as in training. For
one row, reading the weight takes all the time, and the layout of the weight decides; see `fastest_product`.
"""

import platform
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, Optional, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.weak import WeakIdKeyDictionary

from elmo_plugin.lstm.int8 import Int8Weight
from elmo_plugin.lstm.outside_of_graphs import outside_of_graphs
from elmo_plugin.lstm.types import LstmWeights, Product

Module = TypeVar("Module", bound=nn.Module)
Multiply = Callable[[Tensor], Tensor]
"""Maps values (N, I) to (N, O)."""

NUMBER_TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def number_type(name: str, key: str = "precision", allowed: Collection[str] = tuple(NUMBER_TYPES)) -> torch.dtype:
    """Return PyTorch's type of that name. Raises a `ValueError` that names `key` if the name is not allowed."""
    if name not in allowed:
        *others, last = map(repr, allowed)
        raise ValueError(f"'{key}': expected {', '.join(others)} or {last}, got {name!r}")
    return NUMBER_TYPES[name]


def product_type(values: Tensor) -> torch.dtype:
    """Return the number type of matrix products with `values`: autocast's on their device, or else their own."""
    device = values.device.type
    if isinstance(values, Int8Weight):
        return values.dtype
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else values.dtype


# How a weight is multiplied depends only on its size, its type, the number of rows and whether it is frozen, so a batch
# has the same bits in every run. `python -m benchmarks.rule` prints the times that this rule is taken from.

SMALL = 2**22
"""The bytes of a small weight: 4 MiB. A frozen one is copied for each layout; two directions are multiplied at once, in
float32, if their weights are small in float32."""
TINY = 2**18
"""The bytes of a weight, 256 KiB, up to which oneDNN's call takes longer than the product, which MKL then computes."""
WORTH_PREPACKING = {torch.float32: 32, torch.bfloat16: 8}
"""The number of products from which it pays to prepack a weight for them alone."""
USUAL_ROWS = 32
"""The number of rows that oneDNN chooses its layout for, and the largest number that MKL multiplies."""
PADDING = 16
"""Numbers between the rows of a stacked weight: rows that are 2^n bytes apart replace each other in a CPU's cache."""
ROWS_TOGETHER = 4
"""MKL rounds the rows that are left over in another way, and which these are depends on the number of threads."""
BLOCK_ROWS = 256
"""The rows of a large weight that are multiplied by one value together. MKL needs twice the time for all at once."""


class DifferentiableProduct:
    """A `Product` with gradients, by torch's own operator."""

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self.weights = weights

    def __call__(self, values: Tensor, start: Optional[Tensor] = None, out: Optional[Tensor] = None) -> Tensor:
        """Return start + x Wᵀ; see `Product`."""
        pairs = zip(values, self.weights, strict=True)
        products = torch.stack([functional.linear(each.to(weight.dtype), weight) for each, weight in pairs])
        result = products if start is None else start + products
        return result if out is None else out.copy_(result)


class SeparateProduct:
    """A `Product` that multiplies one direction after the other, each by a function of its own."""

    def __init__(self, weights: Sequence[Tensor], functions: Sequence[Multiply], dtype: torch.dtype) -> None:
        self.weights = weights
        self._functions = functions
        self._dtype = dtype

    def __call__(self, values: Tensor, start: Optional[Tensor] = None, out: Optional[Tensor] = None) -> Tensor:
        """Return start + x Wᵀ; see `Product`."""
        pairs = zip(self._functions, values.to(self._dtype).unbind(), strict=True)
        products = [multiply(each) for multiply, each in pairs]  # (N, O) each
        if out is None:
            result = torch.stack(products)
            return result if start is None else start + result
        for direction, product in enumerate(products):
            if start is None:
                out[direction].copy_(product)
            else:
                torch.add(start[direction], product.to(out.dtype), out=out[direction])
        return out


class BatchedProduct:
    """A `Product` that multiplies both directions in one call, by float32 copies of their weights (R, I, O).

    In bfloat16 a single row is so multiplied too: converting it and its product would take longer than they save.
    """

    def __init__(self, weights: Sequence[Tensor], rows: int) -> None:
        self.weights = weights
        self._stacked = torch.stack([weight.detach().float() for weight in weights]).transpose(1, 2)  # (R, I, O)
        directions, inputs, outputs = self._stacked.shape
        if outputs > inputs:  # a weight is read along its longer side
            padded = self._stacked.new_empty(directions, inputs, outputs + (PADDING if rows > 1 else 0))
            self._stacked = padded[..., :outputs].copy_(self._stacked)

    def __call__(self, values: Tensor, start: Optional[Tensor] = None, out: Optional[Tensor] = None) -> Tensor:
        """Return start + x Wᵀ; see `Product`."""
        values = values.float()
        padded = _pad_rows(values)
        if padded is values and out is not None and out.dtype == torch.float32:
            if start is None:
                return torch.bmm(values, self._stacked, out=out)
            return torch.baddbmm(start.float(), values, self._stacked, out=out)
        product = torch.bmm(padded, self._stacked)[:, : values.size(1)].to(self.weights[0].dtype)
        if out is None:
            return product if start is None else start + product
        return out.copy_(product) if start is None else torch.add(start, product, out=out)


class LayerProducts(NamedTuple):
    """The products of one layer in each direction.

    dtype : the type of the values that `input` takes
    input : W x + b of each direction: (N, I) to (N, 4H)
    recurrent, projection : the products of a time step
    """

    dtype: torch.dtype
    input: Sequence[Multiply]
    recurrent: Product
    projection: Optional[Product]


Prepacked = dict[tuple[int, torch.Size], Tensor]
"""Weights in the layout of oneDNN, by the address and the shape of each weight."""


class Kept(NamedTuple):
    """The products of a frozen layer for each kind of batch, and the prepacked weights that they share."""

    versions: "Versions"
    products: dict[tuple[bool, bool], LayerProducts]
    prepacked: Prepacked


def layer_products(layer: Sequence[LstmWeights], rows: int, times: int) -> LayerProducts:
    """Return the fastest products of a layer, without gradients, for `times` steps of at most `rows` sentences.

    Many rows are multiplied by oneDNN, one row by MKL: small weights in both directions at once, large ones in
    blocks, which needs no copy of them. One row in bfloat16 and a large weight are multiplied by oneDNN, too. For a few
    rows and small weights, see `_rows_at_once`. Copies of frozen weights are kept until one of the weights changes.
    """
    weights, first = [weight for each in layer for weight in each if weight is not None], layer[0].recurrent
    for weight in weights:
        if weight.requires_grad or weight.is_inference() or isinstance(weight, Int8Weight):
            return _layer_products(layer, rows, times, is_frozen=False)
    versions = Versions(weights, product_type(first))
    kept = _kept.get(first)
    if kept is None or kept.versions != versions:
        kept = _kept[first] = Kept(versions, {}, {})
    chosen_by = rows == 1, rows <= USUAL_ROWS
    if chosen_by not in kept.products:
        # The products must not hold the weights themselves, or these would never be deleted.
        detached = [
            each._replace(**{name: w.detach() for name, w in each._asdict().items() if w is not None}) for each in layer
        ]
        kept.products[chosen_by] = _layer_products(detached, rows, times, is_frozen=True, prepacked=kept.prepacked)
    products = kept.products[chosen_by]
    projection = products.projection
    if rows > 1 and projection is not None and _size(projection.weights[0]) > SMALL:
        # The copies of a large projection are made for this call alone.
        return products._replace(projection=fastest_product(projection.weights, rows, times))
    return products


_kept = WeakIdKeyDictionary()
"""What is `Kept` of frozen layers, by the first recurrent weight, until that is deleted."""


def _layer_products(
    layer: Sequence[LstmWeights], rows: int, times: int, is_frozen: bool, prepacked: Optional[Prepacked] = None
) -> LayerProducts:
    dtype = product_type(layer[0].recurrent)
    inputs = []
    for weights in layer:
        small = is_frozen and _size(weights.input) <= SMALL
        bias = weights.bias.detach().to(dtype)
        inputs.append(_multiplier(weights.input, dtype, USUAL_ROWS, small, prepacked, bias))
    is_worth = times >= WORTH_PREPACKING.get(dtype, times + 1)
    recurrent = _product([each.recurrent for each in layer], rows, is_frozen or is_worth, prepacked, is_recurrent=True)
    projections = [each.projection for each in layer if each.projection is not None]
    projection = None
    if projections:
        projection = _product(projections, rows, is_frozen and _size(projections[0]) <= SMALL, prepacked)
    return LayerProducts(dtype, inputs, recurrent, projection)


def fastest_product(weights: Sequence[Tensor], rows: int, times: int) -> Product:
    """Return the fastest product, without gradients, for `times` steps of at most `rows` sentences."""
    return _product(weights, rows, times >= WORTH_PREPACKING.get(product_type(weights[0]), times + 1))


def _product(
    weights: Sequence[Tensor],
    rows: int,
    may_copy: bool,
    prepacked: Optional[Prepacked] = None,
    is_recurrent: bool = False,
) -> Product:
    dtype, first = product_type(weights[0]), weights[0]
    is_small = first.dtype == dtype and _is_for_onednn(first) and _size(first, torch.float32) <= SMALL
    if may_copy and is_small and rows <= _rows_at_once(first):
        return BatchedProduct(weights, rows)
    functions = [_multiplier(weight, dtype, rows, may_copy, prepacked, is_recurrent=is_recurrent) for weight in weights]
    return SeparateProduct(weights, functions, dtype)


def _rows_at_once(weight: Tensor) -> int:
    """Return the largest number of rows that MKL multiplies by a small weight (O, I) of both directions at once.

    That is any number for a tiny weight, and one in bfloat16. Otherwise, for more than one row, oneDNN is faster if the
    weight has more rows than columns and the processor has AVX-512.
    """
    if weight.dtype != torch.float32:
        return 1
    if _size(weight) <= TINY:
        return sys.maxsize
    return USUAL_ROWS if _has_avx2_only() or weight.size(0) <= weight.size(1) else 1


def _has_avx2_only() -> bool:
    return torch.backends.cpu.get_cpu_capability() == "AVX2"


def _multiplier(
    weight: Tensor,
    dtype: torch.dtype,
    rows: int,
    may_copy: bool,
    prepacked: Optional[Prepacked] = None,
    bias: Optional[Tensor] = None,
    is_recurrent: bool = False,
) -> Multiply:
    """Return the fastest product with one weight, which is prepacked if it `may_copy` it, and kept in `prepacked`."""
    if isinstance(weight, Int8Weight):
        # The recurrent weight is the largest one. Errors of a projection go straight into the outputs.
        return weight.product if is_recurrent else partial(weight.precise_product, bias=bias)
    key = weight.data_ptr(), weight.shape
    weight = weight.detach().to(dtype)
    if _is_for_onednn(weight) and rows < 2 and dtype == torch.float32:
        return partial(_multiply_blocks, weight)
    is_worth = may_copy and weight.size(0) > weight.size(1)  # prepacking in bfloat16, for one row
    if not _is_for_onednn(weight) or (rows < 2 and not is_worth):
        return partial(functional.linear, weight=weight, bias=bias)
    is_reordered = not may_copy and dtype == torch.float32  # oneDNN changes its layout in each call
    if is_reordered and _size(weight) <= (SMALL if _has_avx2_only() else TINY):
        return partial(_by_mkl, weight, bias)
    if not may_copy:
        return _by_onednn(weight, bias)
    prepacked = {} if prepacked is None else prepacked
    if key not in prepacked:
        prepacked[key] = _prepack(weight)
    return _by_onednn(prepacked[key], bias)


def _by_mkl(weight: Tensor, bias: Optional[Tensor], values: Tensor) -> Tensor:
    """Multiply values (N, I) by a weight (O, I), so that each row has the same bits with any number of threads."""
    return functional.linear(_pad_rows(values), weight, bias)[: len(values)]


def _pad_rows(values: Tensor) -> Tensor:
    """Add rows of zeros to values (…, N, I) where `ROWS_TOGETHER` does not divide N; a few rows stay as they are."""
    rows = values.size(-2)
    if rows <= ROWS_TOGETHER or rows % ROWS_TOGETHER == 0:
        return values
    return functional.pad(values, (0, 0, 0, -rows % ROWS_TOGETHER))


def _multiply_blocks(weight: Tensor, values: Tensor) -> Tensor:
    """Multiply one row (1, I) by a weight (O, I), in blocks of `BLOCK_ROWS` of its rows."""
    if weight.size(0) % BLOCK_ROWS or len(values) > 1:
        return functional.linear(values, weight)
    blocks = weight.view(-1, BLOCK_ROWS, weight.size(1))
    return torch.bmm(blocks, values.t().expand(len(blocks), -1, -1)).view(1, -1)


def _prepack(weight: Tensor) -> Tensor:
    """Return a copy of a weight (O, I) in the layout of oneDNN."""
    prepacked: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), USUAL_ROWS)
    return prepacked


def _by_onednn(weight: Tensor, bias: Optional[Tensor] = None) -> Multiply:
    """Return the product with a weight, which may be prepacked, by oneDNN."""
    operator = torch.ops.mkldnn._linear_pointwise.default
    return partial(operator, W=weight, B=bias, attr="none", scalars=[], algorithm="")


class Versions:
    """Identifies what tensors hold: versions are equal if no tensor was replaced, moved or written to in between.

    PyTorch counts writes, but not those through `.data` and `.numpy()`. Versions keep the storages alive, so that no
    other tensor can get the same address.

    # Parameters

    tensors : `Iterable[Tensor]`
    settings : `Any`
        What else must be equal.
    """

    def __init__(self, tensors: Iterable[Tensor], *settings: Any) -> None:
        self._storages: list[Any] = []
        self._versions: list[Any] = [*settings]
        for tensor in tensors:
            if isinstance(tensor, Int8Weight):  # every write quantizes it again
                self._storages.append(tensor.quantized)
                self._versions.append(id(tensor.quantized))
            else:
                self._storages.append(tensor.untyped_storage())
                writes = 0 if tensor.is_inference() else tensor._version
                self._versions.append((tensor.data_ptr(), writes, tensor.dtype, tensor.device, tensor.shape))

    def __eq__(self, other: object) -> bool:
        """Return whether the tensors hold the same numbers in the same places."""
        return isinstance(other, Versions) and self._versions == other._versions

    __hash__ = None  # type: ignore[assignment]


def _size(weight: Tensor, dtype: Optional[torch.dtype] = None) -> int:
    return weight.numel() * (dtype or weight.dtype).itemsize


@cache
def has_native_bfloat16() -> bool:
    """Return whether this processor has instructions for bfloat16 products that oneDNN uses."""
    if not torch.backends.mkldnn.is_available() or not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    # On x86 oneDNN accepts any AVX-512, but emulates without AVX512-BF16, which all processors with AMX have too.
    return platform.machine() not in ("x86_64", "AMD64") or torch.cpu._is_avx512_bf16_supported()


def _is_for_onednn(values: Tensor) -> bool:
    return values.device.type == "cpu" and not isinstance(values, Int8Weight) and _has_onednn(values.dtype)


@cache
def _has_onednn(dtype: torch.dtype) -> bool:
    """Return whether this build of PyTorch and this processor can run oneDNN's product in this type, by trying it."""
    if dtype not in WORTH_PREPACKING or not torch.backends.mkldnn.is_available():
        return False
    ones = torch.ones(2, 2, dtype=dtype)
    try:
        found = _by_onednn(_prepack(ones))(ones)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return bool((found == 2).all())


@outside_of_graphs  # inductor cannot compile oneDNN's product with a weight that is not a constant
def linear(values: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """Compute `torch.nn.functional.linear`, autocast included: values (N, I), weight (O, I), bias (O,) to (N, O)."""
    dtype = product_type(weight)
    if not torch.is_grad_enabled():
        values, bias = values.to(dtype), None if bias is None else bias.to(dtype)
        if isinstance(weight, Int8Weight):
            return weight.precise_product(values, bias)
        return product(values, weight.to(dtype), bias)
    is_ours = dtype == torch.float32 and _is_for_onednn(weight)
    if is_ours and dtype == values.dtype == weight.dtype and len(values):
        output: Tensor = _Linear.apply(values, weight, bias)
        return output
    return functional.linear(values, weight, bias)


def product(values: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """Multiply values (N, I) by a weight (O, I) of the same type, to (N, O), without gradients."""
    if not _is_for_onednn(weight):
        return functional.linear(values, weight, bias)
    if weight.dtype == torch.float32 and _size(weight) <= TINY:
        return _by_mkl(weight, bias, values)
    return _by_onednn(weight.detach(), bias)(values)


def weight_gradient(d_outputs: Tensor, values: Tensor) -> Tensor:
    """Return the gradient (O, I) of a weight: dYᵀ X, from dY (N, O) and X (N, I)."""
    if values.dtype != torch.float32 or not _is_for_onednn(values) or not len(values):  # PyTorch uses it in bfloat16
        return d_outputs.t() @ values
    return product(values.t(), d_outputs.t()).t()  # oneDNN is slower with swapped operands if O > I


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
