"""A kernel replayed from CUDA graphs: one launch for all its time steps, where launches are what a GPU waits for."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Optional

import torch
from torch import Tensor

from elmo_plugin.kernels.signature import Inputs, Kernel, LstmClips, LstmState, LstmWeights, dense

STEPS = 8
"""Numbers of time steps are rounded up to a multiple of this, so that fewer graphs serve more batches."""


class GraphedKernel:
    """Captures a kernel when a shape comes for the second time, and replays it from then on.

    Only where no gradient is wanted and all is on a GPU; anything else goes to the kernel itself. A graph reads weights
    where they lie, so it goes with changed values; it belongs to one set of weights, one shape of inputs, one type.

    # Parameters

    kernel : `Kernel`
        One that never asks the device for a number, as `fused`.
    capacity : `int`
        Shapes that are remembered; the one that was not used for longest goes first.
    """

    def __init__(self, kernel: Kernel, capacity: int = 64) -> None:
        self.kernel = kernel
        self.capacity = capacity
        self._graphs: OrderedDict[Hashable, Optional[_Graph]] = OrderedDict()  # `None` for what has come once

    def __call__(
        self, inputs: Inputs, lengths: Tensor, weights: LstmWeights, state: LstmState, clips: LstmClips
    ) -> tuple[Tensor, LstmState]:
        """See `Kernel`."""
        inputs = dense(inputs)  # (B, T, I)
        if not _can_capture(inputs):
            return self.kernel(inputs, lengths, weights, state, clips)
        key = key_of(inputs, lengths, weights, state, clips)
        is_new, graph = key not in self._graphs, self._graphs.pop(key, None)
        if graph is None and not is_new:
            graph = _Graph(self.kernel, inputs, lengths, weights, state, clips)
        self._graphs[key] = graph  # as the last one used
        if len(self._graphs) > self.capacity:
            self._graphs.popitem(last=False)
        if graph is None:  # this run compiles what is to be captured
            return self.kernel(inputs, lengths, weights, state, clips)
        return graph.replay(inputs, lengths, state)


class _Graph:
    """A captured call, and the tensors that it reads and writes."""

    @torch.inference_mode(False)  # tensors made in that mode could not be written to outside it
    @torch.no_grad()
    def __init__(
        self,
        kernel: Kernel,
        inputs: Tensor,
        lengths: Tensor,
        weights: LstmWeights,
        state: LstmState,
        clips: LstmClips,
    ) -> None:
        self.inputs = inputs.new_zeros(len(inputs), _rounded(inputs.size(1)), inputs.size(2))  # (B, T', I)
        self.lengths, self.state = lengths.clone(), LstmState(*(part.clone() for part in state))
        self.graph = torch.cuda.CUDAGraph()
        with autocast_without_cache(inputs.device.type), torch.cuda.graph(self.graph):
            self.outputs, self.final = kernel(self.inputs, self.lengths, weights, self.state, clips)

    @torch.no_grad()
    def replay(self, inputs: Tensor, lengths: Tensor, state: LstmState) -> tuple[Tensor, LstmState]:
        """What the kernel would give for these, as tensors of their own."""
        steps = inputs.size(1)
        self.inputs[:, :steps] = inputs  # what other sentences have left beyond is beyond `lengths`
        for captured, new in zip((self.lengths, *self.state), (lengths, *state), strict=True):
            captured.copy_(new)
        self.graph.replay()
        return self.outputs[:, :steps].clone(), LstmState(*(part.clone() for part in self.final))


def _can_capture(inputs: Tensor) -> bool:
    return inputs.is_cuda and not torch.is_grad_enabled() and not torch.cuda.is_current_stream_capturing()


def key_of(
    inputs: Tensor, lengths: Tensor, weights: LstmWeights, state: LstmState, clips: LstmClips
) -> tuple[Hashable, ...]:
    """All that a graph depends on but the values of its inputs."""
    tensors = (lengths, *weights, *state)
    kinds = tuple(None if tensor is None else (tensor.shape, tensor.dtype) for tensor in tensors)
    places = tuple(None if weight is None else weight.data_ptr() for weight in weights)
    size, steps, width = inputs.shape
    device = inputs.device.type
    autocast = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    return size, _rounded(steps), width, inputs.dtype, inputs.device, kinds, places, clips, autocast


def _rounded(steps: int) -> int:
    return -(-steps // STEPS) * STEPS


def autocast_without_cache(device: str) -> Any:
    """A graph must cast weights itself: autocast's cached copies are gone when it is replayed."""
    dtype, enabled = torch.get_autocast_dtype(device), torch.is_autocast_enabled(device)
    return torch.autocast(device, dtype, enabled, cache_enabled=False)
