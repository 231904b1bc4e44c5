"""The types of numbers, by the names that `precision` and `dtype` have in configs."""

import platform
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from elmo_plugin.tensors.int8 import Int8Weight

NUMBER_TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def product_type(values: Tensor) -> torch.dtype:
    """Return the number type of matrix products with `values`: autocast's on their device, or else their own."""
    device = values.device.type
    is_cast = torch.is_autocast_enabled(device) and not isinstance(values, Int8Weight)
    return torch.get_autocast_dtype(device) if is_cast else values.dtype


@cache
def has_native_bfloat16() -> bool:
    """Return whether this processor has instructions by which oneDNN multiplies faster in bfloat16 than in float32.

    On x86 oneDNN accepts any AVX-512, but emulates without AVX512-BF16. Intel's processors run that at half the rate of
    AMD's, no faster than float32: there, AMX pays.
    """
    if not torch.backends.mkldnn.is_available() or not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    if platform.machine() not in ("x86_64", "AMD64"):
        return True
    return torch.cpu._is_amx_tile_supported() if is_intel() else torch.cpu._is_avx512_bf16_supported()


@cache
def is_intel() -> bool:
    """Return whether Intel made this processor."""
    info = Path("/proc/cpuinfo")
    return info.exists() and "GenuineIntel" in info.read_text(encoding="utf-8")
