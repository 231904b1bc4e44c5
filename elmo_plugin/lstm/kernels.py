"""The kernels, by their names in configs."""

import logging
import warnings
from functools import cache
from typing import Optional

import torch
from torch import Tensor

from elmo_plugin.lstm.packed import packed
from elmo_plugin.lstm.reference import reference
from elmo_plugin.lstm.types import Kernel, LstmClips, LstmState

logger = logging.getLogger(__name__)


def auto(
    gates: Tensor,
    sizes: list[int],
    recurrent: Tensor,
    projection: Optional[Tensor],
    state: LstmState,
    clips: LstmClips,
) -> tuple[Tensor, LstmState]:
    """Run `fused` on a GPU if Triton can be imported, otherwise `packed`; see `Kernel`."""
    return fastest_kernel(gates.device)(gates, sizes, recurrent, projection, state, clips)


def fused(
    gates: Tensor,
    sizes: list[int],
    recurrent: Tensor,
    projection: Optional[Tensor],
    state: LstmState,
    clips: LstmClips,
) -> tuple[Tensor, LstmState]:
    """Run `lstm.triton.fused`, which imports Triton at the first call. Raises `ImportError` if Triton is missing."""
    from elmo_plugin.lstm.triton import fused

    return fused(gates, sizes, recurrent, projection, state, clips)


KERNELS: dict[str, Kernel] = {"auto": auto, "fused": fused, "packed": packed, "reference": reference}
"""Every kernel by its name. `auto` chooses one by the device of its inputs."""


def kernel_by_name(name: str) -> Kernel:
    """Return the kernel of this name. Raises `ValueError` for an unknown name."""
    if name == "batched":
        warnings.warn("kernel 'batched' is now called 'packed'", DeprecationWarning, stacklevel=2)
        name = "packed"
    if name not in KERNELS:
        raise ValueError(f"expected one of {', '.join(sorted(KERNELS))}, got {name!r}")
    return KERNELS[name]


def fastest_kernel(device: torch.device) -> Kernel:
    """Return the kernel that `auto` runs on this device."""
    return _fused_or_packed() if device.type == "cuda" else packed


@cache  # warns only once
def _fused_or_packed() -> Kernel:
    try:
        from elmo_plugin.lstm.triton import fused
    except ImportError as error:
        logger.warning("kernel 'auto' runs 'packed' on this GPU, because 'fused' needs the package 'triton': %s", error)
        return packed
    return fused
