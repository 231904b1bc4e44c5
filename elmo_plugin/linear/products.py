"""x Wᵀ + b by the fastest routine at hand, for code that records no gradient; `linear` is for code that does.

PyTorch takes its float32 products on a CPU from MKL, which leaves half of a processor idle that is not Intel's; oneDNN,
which PyTorch carries too, does not. It is called by the operators that `torch.compile` itself calls.
"""

import platform
from collections.abc import Callable
from functools import cache, partial
from math import gcd
from typing import NamedTuple, Optional

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.utils.weak import WeakIdKeyDictionary

WORTH_PACKING = {torch.float32: 32, torch.bfloat16: 8}
"""How often a weight is used before laying it out for the processor's caches has paid for itself."""


PROBE_WIDTH = 8192
"""Numbers of a weight in one product of its `Version`."""
PROBED_AT_ONCE = 2**18
"""Numbers of a weight that are converted together, so that they stay in the processor's caches."""


class Version:
    """What a weight is now: its versions are equal for as long as it is not replaced, moved or written to.

    Torch counts most writes, but not those through `.data` and `.numpy()` (AllenNLP's initializers write so). To see
    them too, the weight is read: its products with a random vector are kept. What changes these by less than their
    rounding changes a layer's own products by no more than theirs. Reading takes as long as one time step of one
    sentence.

    The storage is held: another weight that came to lie in its place would pass for it.
    """

    def __init__(self, weight: Tensor) -> None:
        self._storage = weight.detach()
        self._writes = 0 if weight.is_inference() else weight._version
        self._products = _probe(self._storage)

    def __eq__(self, other: object) -> bool:
        """Whether it is the same weight with the same numbers."""
        return (
            isinstance(other, Version)
            and self._storage.data_ptr() == other._storage.data_ptr()
            and self._storage.dtype == other._storage.dtype
            and self._writes == other._writes
            and torch.equal(self._products, other._products)
        )

    __hash__ = None  # type: ignore[assignment]


@torch.no_grad()
def _probe(weight: Tensor) -> Tensor:
    """The products of a weight, in rows of at most `PROBE_WIDTH` numbers, with a random vector: one for each row."""
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
    """The same `PROBE_WIDTH` numbers from 1 to 2 at every call."""
    drawn = torch.rand(PROBE_WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (drawn + 1).to(device, dtype)


class Packed(NamedTuple):
    """A frozen weight prepacked for oneDNN, and the version of the weight that it was made from."""

    weight: Tensor
    made_from: Version


_packed = WeakIdKeyDictionary()  # by weight, for as long as there is the weight


def product(values: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """Values (N, I) and weight (O, I), which may be packed, to (N, O), a new tensor. All of one type; no gradient."""
    return product_with(weight, bias)(values)  # (N, O)


def product_with(weight: Tensor, bias: Optional[Tensor] = None) -> Callable[[Tensor], Tensor]:
    """Return the function from values (N, I) to `product(values, weight, bias)`, for a weight that is used often."""
    if not _is_for_onednn(weight):
        return partial(linear, weight=weight, bias=bias)
    operator = torch.ops.mkldnn._linear_pointwise.default
    return partial(operator, W=weight, B=bias, attr="none", scalars=[], algorithm="")


def weight_gradient(d_outputs: Tensor, values: Tensor) -> Tensor:
    """Of `product`: dYᵀ X from dY (N, O) and X (N, I), (O, I)."""
    if not runs_faster(values):
        return d_outputs.t() @ values
    return product(values.t(), d_outputs.t()).t()  # oneDNN is slower the other way round, where O is larger than I


def pack(weight: Tensor, rows: int, times: int, keep: bool = False) -> Tensor:
    """The weight as oneDNN wants it for `times` products with about `rows` rows each; itself where that is no gain.

    With `keep`, the prepacked copy of a frozen weight is kept for later calls, which costs its memory.
    """
    if rows < 2 or not _is_for_onednn(weight):
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
    """The type of matrix products on the device of `values`: autocast's, or their own."""
    device = values.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else values.dtype


@cache
def has_native_bfloat16() -> bool:
    """Whether this processor has instructions for bfloat16 products, and oneDNN uses them."""
    if not torch.backends.mkldnn.is_available() or not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    # On x86 oneDNN says yes from AVX-512 on, and emulates without AVX512-BF16, which all processors with AMX have too.
    return platform.machine() not in ("x86_64", "AMD64") or torch.cpu._is_avx512_bf16_supported()


def runs_faster(values: Tensor) -> bool:
    """Whether `product` beats PyTorch's own on such tensors: in bfloat16 both are oneDNN's."""
    return values.dtype == torch.float32 and _is_for_onednn(values)


def _is_for_onednn(values: Tensor) -> bool:
    return values.device.type == "cpu" and _has_onednn(values.dtype)


@cache
def _has_onednn(dtype: torch.dtype) -> bool:
    """Whether this build and this processor run oneDNN's product in this type: found by trying it."""
    if dtype not in WORTH_PACKING or not torch.backends.mkldnn.is_available():
        return False
    ones = torch.ones(2, 2, dtype=dtype)
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(ones, 2)
        found = torch.ops.mkldnn._linear_pointwise(ones, packed, None, "none", [], "")
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return bool((found == 2).all())
