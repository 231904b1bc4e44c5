"""Kernels that are chosen, or imported, at the call: Triton is not needed where nothing runs on a GPU."""

import logging
from collections.abc import Sequence
from functools import cache

from torch import Tensor

from elmo_plugin.kernels.batched import batched
from elmo_plugin.kernels.graphed_windows import GraphedWindows
from elmo_plugin.kernels.graphs import GraphedKernel
from elmo_plugin.kernels.signature import Inputs, Kernel, LstmClips, LstmState, LstmWeights
from elmo_plugin.kernels.stack import Stack, StackOptions, StackOutput

logger = logging.getLogger(__name__)


def auto(
    inputs: Inputs, lengths: Tensor, weights: LstmWeights, state: LstmState, clips: LstmClips
) -> tuple[Tensor, LstmState]:
    """`fused` for tensors on a GPU, if Triton can be imported, else `batched`; see `Kernel` for shapes.

    Never `graphed`, whose memory grows with the shapes that it meets, or `pipelined`, which copies all weights at each
    call. None of the three has been timed.
    """
    kernel = _fused_or_batched() if weights.input.is_cuda else batched
    return kernel(inputs, lengths, weights, state, clips)


def fused_on_demand(
    inputs: Inputs, lengths: Tensor, weights: LstmWeights, state: LstmState, clips: LstmClips
) -> tuple[Tensor, LstmState]:
    """`kernels.fused_recurrence.fused`, imported when first called. Raises `ImportError` where Triton is missing."""
    from elmo_plugin.kernels.fused_recurrence import fused

    return fused(inputs, lengths, weights, state, clips)


def pipelined_on_demand(stacks: Sequence[Stack], options: StackOptions) -> list[StackOutput]:
    """`kernels.pipelined.pipelined`, imported when first called. Raises `ImportError` where Triton is missing."""
    from elmo_plugin.kernels.pipelined import pipelined

    return pipelined(stacks, options)


def graphed(
    inputs: Inputs, lengths: Tensor, weights: LstmWeights, state: LstmState, clips: LstmClips
) -> tuple[Tensor, LstmState]:
    """`fused`, replayed from CUDA graphs where a shape has come before; see `GraphedKernel`, `GraphedWindows`.

    The first where no gradient is wanted, the other where one is, as in pretraining on windows of one shape.
    """
    return _graphs(inputs, lengths, weights, state, clips)


_graphs = GraphedKernel(GraphedWindows(fused_on_demand))


@cache
def _fused_or_batched() -> Kernel:
    """Looked up once, so said once."""
    try:
        from elmo_plugin.kernels.fused_recurrence import fused
    except ImportError as error:
        logger.warning("kernel 'auto' runs 'batched' on this GPU, since 'fused' wants the package 'triton': %s", error)
        return batched
    return fused
