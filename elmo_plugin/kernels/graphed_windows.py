"""A kernel's forward and backward pass, each replayed from a CUDA graph: for pretraining's windows of one shape (S, U).

Two launches stand for all time steps of a layer, there and back. Not timed yet.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Optional
from weakref import ref

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.weak import WeakIdKeyDictionary

from elmo_plugin.kernels.graphs import autocast_without_cache, key_of
from elmo_plugin.kernels.signature import Inputs, Kernel, LstmClips, LstmState, LstmWeights, dense


class GraphedWindows:
    """Captures both passes of a kernel when a layer is given the same shape twice running, to replay them from then on.

    Only where gradients are wanted and all is on a GPU; anything else goes to the kernel itself, and so does a second
    window of a layer before the first one's backward pass, for a graph keeps what one backward pass needs. A layer has
    one pair of graphs; those of the next shape that comes twice running take their place.

    # Parameters

    kernel : `Kernel`
        One that never asks the device for a number, as `fused`.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._last_keys = WeakIdKeyDictionary()  # by recurrent weight
        self._windows = WeakIdKeyDictionary()

    def __call__(
        self, inputs: Inputs, lengths: Tensor, weights: LstmWeights, state: LstmState, clips: LstmClips
    ) -> tuple[Tensor, LstmState]:
        """See `Kernel`."""
        inputs, layer = dense(inputs), weights.recurrent
        if not _can_capture((inputs, *state, *weights)):
            return self.kernel(inputs, lengths, weights, state, clips)
        key = _key(inputs, lengths, weights, state, clips)
        came_last, self._last_keys[layer] = self._last_keys.get(layer) == key, key
        window = self._windows.get(layer)
        if came_last and (window is None or window.key != key):
            window = self._windows[layer] = _Window(key, self.kernel, inputs, lengths, weights, state, clips)
        if window is None or window.key != key or window.is_waiting:
            return self.kernel(inputs, lengths, weights, state, clips)
        outputs, hidden, cell = _Replay.apply(window, lengths, inputs, *state, *weights)
        return outputs, LstmState(hidden, cell)


class _Window:
    """Both passes of a captured call, and the tensors that they read and write."""

    @torch.enable_grad()
    def __init__(
        self,
        key: Hashable,
        kernel: Kernel,
        inputs: Tensor,
        lengths: Tensor,
        weights: LstmWeights,
        state: LstmState,
        clips: LstmClips,
    ) -> None:
        self.key = key
        self.waits_for: Any = None  # what the next backward pass belongs to, as a weak reference
        self.lengths = lengths.clone()
        self.read = [_leaf(tensor.clone()) for tensor in (inputs, *state)]
        own_weights = LstmWeights(*(None if weight is None else _leaf(weight) for weight in weights))  # type: ignore[arg-type]
        leaves = [*self.read, *own_weights]
        self.forward_graph, self.backward_graph = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with autocast_without_cache(inputs.device.type):
            with torch.cuda.graph(self.forward_graph):
                outputs, final = kernel(self.read[0], self.lengths, own_weights, LstmState(*self.read[1:]), clips)
            wrote = (outputs, *final)
            self.d_wrote = [torch.zeros_like(tensor) for tensor in wrote]
            wanted = [leaf for leaf in leaves if leaf is not None and leaf.requires_grad]
            with torch.cuda.graph(self.backward_graph, pool=self.forward_graph.pool()):
                found = iter(torch.autograd.grad(wrote, wanted, self.d_wrote, materialize_grads=True))
        self.wrote = [tensor.detach() for tensor in wrote]
        self.d_leaves = [next(found) if leaf is not None and leaf.requires_grad else None for leaf in leaves]

    @property
    def is_waiting(self) -> bool:
        """Whether there may be a backward pass for what was read last."""
        return self.waits_for is not None and self.waits_for() is not None


class _Replay(torch.autograd.Function):
    """A captured call in the graph of autograd; what comes out are tensors of its own, also as gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        window: _Window,
        lengths: Tensor,
        inputs: Tensor,
        hidden: Tensor,
        cell: Tensor,
        *weights: Optional[Tensor],
    ) -> tuple[Tensor, ...]:
        """Outputs (B, T, P), hidden (B, P) and cell (B, H); weights are read where they lie."""
        for captured, new in zip((window.lengths, *window.read), (lengths, inputs, hidden, cell), strict=True):
            captured.copy_(new)
        window.forward_graph.replay()
        ctx.window, window.waits_for = window, ref(ctx)
        return tuple(tensor.clone() for tensor in window.wrote)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Optional[Tensor], ...]:
        """Gradients of inputs, state and weights. Raises `RuntimeError` for a second pass, as a graph keeps one."""
        window = ctx.window
        if window.waits_for is None or window.waits_for() is not ctx:
            raise RuntimeError("kernel 'graphed' can go backward through a window once; its numbers are overwritten")
        window.waits_for = None
        for captured, new in zip(window.d_wrote, gradients, strict=True):
            captured.copy_(new)
        window.backward_graph.replay()
        return None, None, *(None if gradient is None else gradient.clone() for gradient in window.d_leaves)


def _leaf(tensor: Tensor) -> Tensor:
    """The same numbers at the same place, where a graph of autograd begins."""
    return tensor.detach().requires_grad_(tensor.requires_grad)


def _can_capture(tensors: Sequence[Optional[Tensor]]) -> bool:
    """Whether one of them is to have a gradient, and all are on a GPU."""
    present = [tensor for tensor in tensors if tensor is not None]
    is_wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in present)
    return is_wanted and _are_on_a_free_gpu(present)


def _are_on_a_free_gpu(tensors: Sequence[Tensor]) -> bool:
    """Where nobody is capturing a graph already."""
    return all(tensor.is_cuda for tensor in tensors) and not torch.cuda.is_current_stream_capturing()


def _key(
    inputs: Tensor, lengths: Tensor, weights: LstmWeights, state: LstmState, clips: LstmClips
) -> tuple[Hashable, ...]:
    """All that both passes depend on but the values that are read."""
    wants = tuple(tensor is not None and tensor.requires_grad for tensor in (inputs, *state, *weights))
    return inputs.shape, wants, key_of(inputs, lengths, weights, state, clips)
