"""Frozen 8-bit weights on a CPU, multiplied by FBGEMM, which comes with PyTorch on x86.

Each step of a recurrence reads the whole weight, and for a single sentence there is little to compute with it. So
reading the weight takes most of the time, and a weight of a quarter of the size is read faster.
"""

import warnings
from functools import cache
from typing import Any, Optional

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

LARGEST_WEIGHT = 127
LARGEST_VALUE = 63
"""Values get 7 bits: without AVX512-VNNI a processor adds two products in 16 bits, where 8-bit values can overflow."""
ZERO = 64
"""The unsigned integer that stands for a value of 0."""
SMALLEST_RANGE = 1e-30
"""A row of smaller values counts as zeros, so that dividing by the row's largest number stays finite."""
SCALE_BITS = 16
"""With so few bits, a scale times an 8-bit integer is exact, so that rounding a rounded weight changes nothing."""


class Int8Weight(Tensor):
    """A frozen weight (O, I) rounded to 8 bits, with one scale per row: the largest number of row o is 127 · scale_o.

    The two products read the integers. Every other operator reads the rounded weight in float32, which is also what a
    state dict stores and what a conversion to another number type starts from.

    Each row of values is scaled by its own largest number, so its result depends on no other row, and integers add up
    to the same sum in any order.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    _is_param = True  # makes it an instance of `torch.nn.Parameter`
    quantized: Any
    """FBGEMM's copy of the integers and scales. Writing to the weight replaces it."""

    @staticmethod
    def __new__(cls, weight: Tensor) -> "Int8Weight":
        """Round a weight (O, I) that is on the CPU."""
        rounded = Tensor._make_wrapper_subclass(cls, weight.shape, dtype=torch.float32, device=weight.device)
        rounded.quantized = _quantize(weight)
        return rounded

    def dequantized(self) -> Tensor:
        """Return the rounded weight (O, I) in float32."""
        weight, _ = torch.ops.quantized.linear_unpack(self.quantized)
        return weight.dequantize()

    def product(self, values: Tensor) -> Tensor:
        """Round float32 values (N, I) to 7 bits and multiply them by the weight, to (N, O)."""
        step = _step(values)  # (N, 1)
        return self._times(values / step).mul_(step)

    def precise_product(self, values: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        """Round float32 values (N, I) to 13 bits and multiply them by the weight, to (N, O), in twice the operations.

        The remainder of rounding to 7 bits is rounded to 7 bits too.
        """
        step = _step(values)  # (N, 1)
        scaled = values / step  # (N, I)
        rest = (scaled - scaled.round()).mul_(2 * LARGEST_VALUE)
        high, low = self._times(torch.cat([scaled, rest])).chunk(2)  # (N, O) each
        output = high.add_(low, alpha=0.5 / LARGEST_VALUE).mul_(step)
        return output if bias is None else output.add_(bias)

    def _times(self, scaled: Tensor) -> Tensor:
        """Round values (N, I) between −63 and 63 to integers and multiply them by the weight, to (N, O)."""
        multiply = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
        return multiply(scaled, 1.0, ZERO, self.quantized)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Int8Weight":
        """Return a copy of the weight."""
        return Int8Weight(self.dequantized())

    def __reduce_ex__(self, protocol: Any) -> tuple[type, tuple[Tensor]]:
        """Pickle the rounded weight."""
        return Int8Weight, (self.dequantized(),)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run an operator on the rounded weight. If it writes to the weight, round the result again."""
        floats, named = tree_map(
            lambda each: each.dequantized() if isinstance(each, cls) else each, (args, kwargs or {})
        )
        result = func(*floats, **named)
        if func._schema.is_mutable and isinstance(args[0], cls):
            args[0].quantized = _quantize(floats[0])
            return args[0]
        return result


@cache
def has_int8() -> bool:
    """Return whether this build of PyTorch and this processor can multiply by an `Int8Weight`, by trying it."""
    ones = torch.ones(2, 16)
    try:
        return torch.allclose(Int8Weight(ones).product(ones), ones @ ones.t(), rtol=1e-3)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False


def _step(values: Tensor) -> Tensor:
    """Return the value of the integer 1 in each row of values (N, I), as (N, 1)."""
    largest = torch.linalg.vector_norm(values, torch.inf, dim=1, keepdim=True)  # (N, 1)
    return largest.clamp_min_(SMALLEST_RANGE).div_(LARGEST_VALUE)


@torch.no_grad()
def _quantize(weight: Tensor) -> Any:
    """Round a weight (O, I) to integers of 8 bits in the layout of FBGEMM, one of PyTorch's libraries for them.

    PyTorch 2.15 warns that a later release will have no quantized tensors. `has_int8` will be false there, until the
    two products call `torch.ops.onednn.qlinear_pointwise`, which takes plain integers. Today it is slower than FBGEMM
    for few rows, and without AVX512-VNNI for any number. The other candidates are no replacement: without AVX512-VNNI
    `torch._int_mm` overflows, and `torch._weight_int8pack_mm` is far slower than a product in float32.
    """
    weight = weight.float()
    steps = weight.abs().amax(dim=1) / LARGEST_WEIGHT  # (O,)
    mantissa, exponent = steps.where(steps != 0, 1).frexp()  # a row of zeros gets the scale 1
    scales = (mantissa * 2**SCALE_BITS).ceil_().div_(2**SCALE_BITS).ldexp_(exponent)  # (O,), rounded up
    integers = (weight / scales.unsqueeze(1)).round_().to(torch.int8)  # (O, I)
    zeros = torch.zeros(len(weight), dtype=torch.long)  # (O,)
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            quantized = torch._make_per_channel_quantized_tensor(integers, scales.double(), zeros, 0)
            return torch.ops.quantized.linear_prepack(quantized, None)
    finally:
        torch.backends.quantized.engine = before
