"""For GPUs: at each time step the products of `torch.mm`, and one Triton kernel for all that stands between two.

A GPU reads a step's weights in the time that it takes for a few sentences as for many, so sentences do not leave the
batch when they end: every step has B rows, and nothing in the loop asks the device how long a sentence is. The loop
can so be captured in a CUDA graph. An ended sentence's cell stands still, and what else its rows hold is not given out.
"""

from typing import Any, Optional

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from elmo_plugin.kernels.fused import (
    cell_backward,
    cell_forward,
    check_device,
    launch,
    output_backward,
    output_forward,
)
from elmo_plugin.kernels.signature import Inputs, LstmClips, LstmState, LstmWeights, dense


def fused(
    inputs: Inputs, lengths: Tensor, weights: LstmWeights, state: LstmState, clips: LstmClips
) -> tuple[Tensor, LstmState]:
    """The same as `reference`; see `Kernel` for shapes.

    Matrix products are of the type of the weights, or of autocast's; states and outputs are float32, or float64.
    Raises `ValueError` on a CPU, unless Triton's interpreter runs there.
    """
    inputs = dense(inputs)  # (B, T, I)
    check_device(inputs.device, "fused")
    dtype = torch.promote_types(state.cell.dtype, torch.float32)
    hidden, cell = (part.to(dtype).contiguous() for part in state)  # (B, P), (B, H)
    ended = (torch.arange(inputs.size(1), device=lengths.device) >= lengths.unsqueeze(1)).unsqueeze(-1)  # (B, T, 1)
    by_step = inputs.masked_fill(ended, 0.0).transpose(0, 1).contiguous()  # (T, B, I)
    gates = linear(by_step.to(weights.input.dtype), weights.input, weights.bias)  # (T, B, 4H)
    hiddens, cell = FusedRecurrence.apply(
        gates, weights.recurrent, weights.projection, hidden, cell, lengths, clips, torch.is_grad_enabled()
    )  # (T + 1, B, P), (B, H)
    last = lengths.view(1, -1, 1).expand(1, -1, hidden.size(1))  # (1, B, P)
    outputs = hiddens[1:].transpose(0, 1).masked_fill(ended, 0.0)  # (B, T, P)
    return outputs, LstmState(hiddens.gather(0, last).squeeze(0), cell)


class FusedRecurrence(torch.autograd.Function):
    """The time steps of an LSTMP after its input product, for a batch whose sentences all keep their row.

    The equations are those of `PackedRecurrence`, and under autocast the same parts are of lower precision.

    # Parameters

    gates : `Tensor` (T, B, 4H)
        W x + b, in the type of all matrix products. Any finite number where there is no token.
    recurrent, projection : `Tensor` (4H, P) and (P, H)
    hidden, cell : `Tensor` (B, P) and (B, H)
        The state before the first token.
    lengths : `Tensor` (B,)
    clips : `LstmClips`
    keep : `bool`
        Keep what the backward pass needs. Without, memory beside `gates` and the outputs does not grow with T.
    """

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        recurrent: Tensor,
        projection: Optional[Tensor],
        hidden: Tensor,
        cell: Tensor,
        lengths: Tensor,
        clips: LstmClips,
        keep: bool,
    ) -> tuple[Tensor, Tensor]:
        """Hidden (T + 1, B, P) before and after each step, arbitrary where a sentence has ended, and the last cell."""
        steps, dtype, stride = len(gates), gates.dtype, gates.stride(0)
        by_recurrent = recurrent.to(dtype).t()  # (P, 4H)
        by_projection = None if projection is None else projection.to(dtype).t()  # (H, P)
        hiddens = hidden.new_empty(steps + 1, *hidden.shape)  # (T + 1, B, P)
        hiddens[0] = hidden
        cast_hiddens = hiddens.to(dtype)  # (T + 1, B, P), `hiddens` itself where products are of its type
        cells = cell.expand(steps + 1 if keep else 1, *cell.shape).clone()  # (T + 1, B, H)
        activations = cell.new_empty(gates.shape) if keep else None  # (T, B, 4H)
        pre = gates.new_empty(gates.shape[1:])  # (B, 4H)
        emitted = torch.empty_like(cell, dtype=cell.dtype if projection is None else dtype)  # (B, H)
        raw = emitted if by_projection is None else emitted.new_empty(hidden.shape)  # (B, P), before the clip
        with torch.cuda.device_of(gates):
            for t in range(steps):
                torch.mm(cast_hiddens[t], by_recurrent, out=pre)
                launch(cell_forward, cell, t, clips.cell, gates, stride, pre, lengths, activations, cells, emitted)
                if by_projection is not None:
                    torch.mm(emitted, by_projection, out=raw)
                launch(output_forward, hidden, t, output_clip(projection, clips), raw, hiddens, cast_hiddens)
        if keep:
            ctx.save_for_backward(recurrent, projection, lengths, activations, cells, hiddens)
        ctx.clips, ctx.dtype = clips, dtype
        return hiddens, cells[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_hiddens: Tensor, d_cell: Tensor) -> tuple[Optional[Tensor], ...]:
        """Gradients of `gates`, `recurrent`, `projection`, `hidden` and `cell`, given those of what came out."""
        recurrent, projection, lengths, activations, cells, hiddens = ctx.saved_tensors
        dtype, clips, clip = ctx.dtype, ctx.clips, output_clip(projection, ctx.clips)
        by_recurrent = recurrent.to(dtype)  # (4H, P)
        by_projection = None if projection is None else projection.to(dtype)  # (P, H)
        d_hiddens, d_cell = d_hiddens.contiguous(), d_cell.clone(memory_format=torch.contiguous_format)
        d_gates = torch.empty_like(activations, dtype=dtype)  # (T, B, 4H)
        d_raw = torch.empty_like(hiddens[1:], dtype=cells.dtype if projection is None else dtype)  # (T, B, P)
        d_hidden = d_raw.new_zeros(hiddens.shape[1:], dtype=dtype)  # (B, P), from the step that comes after
        d_emitted = d_raw.new_empty(d_cell.shape)  # (B, H)
        with torch.cuda.device_of(d_gates):
            for t in reversed(range(len(d_gates))):
                launch(output_backward, d_hidden, t, clip, hiddens, d_hiddens, d_hidden, d_raw)
                if by_projection is not None:
                    torch.mm(d_raw[t], by_projection, out=d_emitted)
                d_h = d_raw[t] if by_projection is None else d_emitted  # (B, H)
                launch(cell_backward, d_cell, t, clips.cell, activations, cells, lengths, d_h, d_cell, d_gates)
                torch.mm(d_gates[t], by_recurrent, out=d_hidden)
        before = hiddens[:-1].to(dtype).flatten(0, 1)  # (TB, P)
        d_recurrent = (d_gates.flatten(0, 1).t() @ before).to(recurrent.dtype)  # (4H, P)
        d_projection = None
        if projection is not None:
            emitted = (activations[..., -cells.size(-1) :] * cells[1:].tanh()).to(dtype).flatten(0, 1)  # (TB, H)
            d_projection = (d_raw.flatten(0, 1).t() @ emitted).to(projection.dtype)  # (P, H)
        return d_gates, d_recurrent, d_projection, d_hiddens[0] + d_hidden, d_cell, None, None, None


def output_clip(projection: Optional[Tensor], clips: LstmClips) -> Optional[float]:
    """TensorFlow's `LSTMCell` looks at `proj_clip` only where it projects."""
    return None if projection is None else clips.projection
