"""The number types of a biLM's matrix products, and which of them a config's `precision` means on which device."""

import logging
from functools import cache

import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.kernels.products import has_native_bfloat16

logger = logging.getLogger(__name__)

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
CHOICES = [*PRECISIONS, "auto"]
"""What `precision` may be: a type, or `auto` for bfloat16 where the device computes it natively, else float32."""


def check_precision(precision: str) -> str:
    """Return it. Raises `ConfigurationError` for any but `CHOICES`."""
    if precision not in CHOICES:
        raise ConfigurationError(f"'precision': expected one of {', '.join(CHOICES)}, got {precision!r}")
    return precision


def dtype_on(device: torch.device, precision: str) -> torch.dtype:
    """Return the type of the matrix products that a config's `precision` means on this device.

    On a processor that would only emulate bfloat16, several times slower than float32, it is float32.
    """
    if precision in PRECISIONS and (precision == "float32" or device.type != "cpu"):
        return PRECISIONS[precision]
    if device.type == "cpu":
        return torch.bfloat16 if has_native_bfloat16() else torch.float32
    native = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if native else torch.float32


def warn_of_emulation(device: torch.device, precision: str) -> None:
    """Log, once a process, that bfloat16 was asked for and float32 is computed."""
    if precision == "bfloat16" and dtype_on(device, precision) == torch.float32:
        _warn()


@cache
def _warn() -> None:
    logger.warning(
        "'precision' is 'bfloat16', which this processor would emulate, several times slower than float32: computing "
        "in float32. 'auto' does the same without this warning."
    )
