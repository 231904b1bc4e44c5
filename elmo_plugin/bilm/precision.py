"""The number types of a biLM's matrix products, and which of them a config's `precision` means on which device."""

import logging
from functools import cache

import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.linear import has_native_bfloat16

logger = logging.getLogger(__name__)

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
CHOICES = [*PRECISIONS, "auto"]
"""What `precision` may be: a type, or `auto` for bfloat16 where the device computes it natively, else float32."""


def check_precision(precision: str, requires_grad: bool = False) -> str:
    """Return what a config's `precision` means for a biLM, which is float32 where the biLM is tuned.

    Raises `ConfigurationError` for any but `CHOICES`, and for bfloat16 with `requires_grad`.
    """
    if precision not in CHOICES:
        raise ConfigurationError(f"'precision': expected one of {', '.join(CHOICES)}, got {precision!r}")
    if requires_grad and precision == "bfloat16":
        raise ConfigurationError("'precision': expected 'float32' or 'auto' with 'requires_grad', got 'bfloat16'")
    return "float32" if requires_grad else precision


def is_same_on_gpu(precision: str) -> bool:
    """Return whether it means the same type on the processor, where a model is built, and on a GPU, if there is one."""
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    return not torch.cuda.is_available() or dtype_on(cpu, precision) == dtype_on(gpu, precision)


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
