"""The kernels, by their names in configs."""

import logging
from functools import cache

from torch import Tensor

from elmo_plugin.lstm.recurrence import packed
from elmo_plugin.lstm.reference import reference
from elmo_plugin.lstm.types import Kernel, LstmInputs, LstmState

logger = logging.getLogger(__name__)


def auto(inputs: LstmInputs) -> tuple[Tensor, LstmState]:
    """Run `fused` on a GPU if Triton can be imported, otherwise `packed`; see `Kernel`."""
    kernel = _fused_or_packed() if inputs.gates.device.type == "cuda" else packed
    return kernel(inputs)


def fused(inputs: LstmInputs) -> tuple[Tensor, LstmState]:
    """Run `lstm.triton.fused`, which imports Triton at the first call. Raises `ImportError` if Triton is missing."""
    from elmo_plugin.lstm.triton import fused

    return fused(inputs)


KERNELS: dict[str, Kernel] = {"auto": auto, "fused": fused, "packed": packed, "reference": reference}
"""Every kernel by its name. `auto` chooses one by the device of its inputs."""


@cache  # warns only once
def _fused_or_packed() -> Kernel:
    try:
        from elmo_plugin.lstm.triton import fused
    except ImportError as error:
        logger.warning("kernel 'auto' runs 'packed' on this GPU, because 'fused' needs the package 'triton': %s", error)
        return packed
    return fused
