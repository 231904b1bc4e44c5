"""The number type of a biLM's matrix products: the meaning of a config's `precision` on each device."""

import logging
from functools import cache

import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.linear import has_native_bfloat16, number_type

logger = logging.getLogger(__name__)

PRECISIONS = {name: number_type(name) for name in ("float32", "bfloat16")}
CHOICES = [*PRECISIONS, "auto"]
"""The values of `precision`. `auto` is bfloat16 where the device computes it natively, else float32."""


def check_precision(precision: str, requires_grad: bool = False) -> str:
    """Return the `precision` of a biLM: that of the config, or float32 if the biLM is fine-tuned.

    Raises `ConfigurationError` for a value that is not in `CHOICES`, and for bfloat16 with `requires_grad`.
    """
    if precision not in CHOICES:
        raise ConfigurationError(f"'precision': expected one of {', '.join(CHOICES)}, got {precision!r}")
    if requires_grad and precision == "bfloat16":
        raise ConfigurationError("'precision': expected 'float32' or 'auto' with 'requires_grad', got 'bfloat16'")
    return "float32" if requires_grad else precision


def is_same_on_gpu(precision: str) -> bool:
    """Return whether `precision` is the same type on the processor, where a model is built, and on a GPU, if any."""
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    return not torch.cuda.is_available() or dtype_on(cpu, precision) == dtype_on(gpu, precision)


def dtype_on(device: torch.device, precision: str) -> torch.dtype:
    """Return the type of matrix products for a config's `precision` on this device.

    A processor that would emulate bfloat16, several times slower than float32, computes in float32.
    """
    if precision == "float32" or (precision == "bfloat16" and device.type != "cpu"):
        return PRECISIONS[precision]
    if device.type == "cpu":
        return torch.bfloat16 if has_native_bfloat16() else torch.float32
    native = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if native else torch.float32


def warn_of_emulation(device: torch.device, precision: str) -> None:
    """Log, once per process, that bfloat16 was requested and float32 is computed."""
    if precision == "bfloat16" and dtype_on(device, precision) == torch.float32:
        _warn()


@cache
def _warn() -> None:
    logger.warning(
        "'precision' is 'bfloat16', but this processor would emulate it, several times slower than float32; float32 is "
        "used instead. 'auto' does the same without this warning."
    )
