"""The number type of a biLM's weights and products: what a config's `precision` means on each device."""

import logging
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor, nn

from elmo_plugin.bilm.elmo_lstm import ProjectedLstm
from elmo_plugin.tensors import NUMBER_TYPES, Int8Weight, Linear, has_int8, has_native_bfloat16

logger = logging.getLogger(__name__)

CHOICES = ["float32", "bfloat16", "int8", "auto"]
"""The values of `precision`. `auto` is bfloat16 on devices that are faster in it, and float32 on others."""

FALLBACKS = {
    "bfloat16": "'precision' is 'bfloat16', but this processor multiplies faster in float32, which is used instead. "
    "'auto' does the same without this warning.",
    "int8": "'precision' is 'int8', which only x86 processors compute, with FBGEMM; float32 is used instead.",
}
"""The warnings about precisions that fall back to float32."""

LARGEST_UNROUNDED = 2**22
"""The bytes, in float32, of the largest weight that int8 leaves as it is. A processor keeps so small a weight in its
cache: to read a quarter of it saves less time than rounding the values costs."""


def check_precision(precision: str, choices: Sequence[str] = CHOICES, key: str = "precision") -> str:
    """Return the value of `key`. Raises `ConfigurationError` that names the key if it is not one of `choices`."""
    if precision not in choices:
        raise ConfigurationError(f"'{key}': expected one of {', '.join(choices)}, got {precision!r}")
    return precision


def precision_on(device: torch.device, precision: str) -> str:
    """Return what a config's `precision` means on this device: `float32`, `bfloat16` or `int8`.

    It is float32 on a processor that multiplies no faster in bfloat16, and on a device that has no int8 products.
    """
    if precision == "int8":
        return "int8" if device.type == "cpu" and has_int8() else "float32"
    if precision == "float32" or (precision == "bfloat16" and device.type != "cpu"):
        return precision
    if device.type == "cpu":
        return "bfloat16" if has_native_bfloat16() else "float32"
    native = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return "bfloat16" if native else "float32"


def dtype_on(device: torch.device, precision: str) -> torch.dtype:
    """Return the type of values for a config's `precision` on this device. With int8 weights it is float32."""
    return NUMBER_TYPES.get(precision_on(device, precision), torch.float32)


def to_int8(bilm: nn.Module) -> None:
    """Round the weights of matrix products to 8 bits, but for those that are faster in float32."""
    _convert_weights(bilm, lambda weight: weight if 4 * weight.numel() <= LARGEST_UNROUNDED else Int8Weight(weight))


def undo_int8(bilm: nn.Module) -> None:
    """Replace int8 weights by the same numbers in float32, which can be moved, cast and trained."""
    frozen = partial(nn.Parameter, requires_grad=False)
    _convert_weights(bilm, lambda each: frozen(each.dequantized()) if isinstance(each, Int8Weight) else each)


def is_int8(bilm: nn.Module) -> bool:
    """Return whether a biLM has int8 weights."""
    return any(isinstance(weight, Int8Weight) for weight in bilm.parameters())


@cache  # warns only once
def warn_of_fallback(device: torch.device, precision: str) -> None:
    """Log, once per process and device, that bfloat16 or int8 was requested but float32 is used."""
    if precision in FALLBACKS and precision_on(device, precision) == "float32":
        logger.warning(FALLBACKS[precision])


def _convert_weights(bilm: nn.Module, convert: Callable[[Any], Tensor]) -> None:
    """Convert the weights of matrix products, (O, I) each. Embeddings, convolutions and biases stay as they are."""
    for module in bilm.modules():
        if isinstance(module, (Linear, ProjectedLstm)):
            for name, weight in list(module.named_parameters(recurse=False)):
                if weight.dim() == 2:
                    setattr(module, name, convert(weight))
