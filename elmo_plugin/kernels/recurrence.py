"""The recurrence over packed sequences, its backward pass written out: buffers, not a graph of small nodes."""

from itertools import accumulate
from typing import Any, Optional

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo_plugin.kernels.products import product, product_type, weight_gradient
from elmo_plugin.kernels.signature import LstmClips

sigmoid_backward, tanh_backward = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward


class PackedRecurrence(torch.autograd.Function):
    """The time steps of an LSTMP after its input product, sentences longest first, for a batch that shrinks.

    Forward, at each step, with `*` for the value before the clip:

        [i f g o] = [σ σ tanh σ](gates + R h)    c* = f c + i g    h* = W (o tanh c)

    Backward goes through the same steps the other way round (Gers et al. 2000; Sak et al. 2014): a clipped value
    passes no gradient. Under autocast the matrix products alone are of lower precision; cells, activations and sums
    over time stay as they are.

    # Parameters

    gates : `Tensor` (N, 4H)
        W x + b of N tokens, time step after time step.
    recurrent, projection : `Tensor` (4H, P) and (P, H)
    hidden, cell : `Tensor` (B, P) and (B, H)
        The state before the first token.
    sizes : `list[int]`
        Sentences that are still being read, at each time step.
    clips : `LstmClips`
    """

    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        recurrent: Tensor,
        projection: Optional[Tensor],
        hidden: Tensor,
        cell: Tensor,
        sizes: list[int],
        clips: LstmClips,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs (N, P), and hidden (B, P) and cell (B, H) after each sentence."""
        start = (hidden, cell)
        hidden, cell = hidden.clone(), cell.clone()  # an ended sentence's rows are not written again
        dtype = product_type(cell)
        by_recurrent = recurrent.to(dtype)  # (4H, P)
        by_projection = None if projection is None else projection.to(dtype)  # (P, H)
        activations = gates.to(cell.dtype, copy=True)  # (N, 4H), pre-activations until their step
        cells = cell.new_empty(len(gates), cell.size(1))  # (N, H)
        tanh_cells = torch.empty_like(cells)  # (N, H)
        outputs = cell.new_empty(len(gates), hidden.size(1))  # (N, P)
        for live, now in _steps(sizes):
            activations[now] += product(hidden[:live].to(dtype), by_recurrent)
            i, f, g, o = _activate(activations[now])  # (live, H) each
            c = torch.mul(f, cell[:live], out=cells[now]).addcmul_(i, g)  # (live, H)
            if clips.cell is not None:
                c.clamp_(-clips.cell, clips.cell)
            cell[:live] = c
            h = o * torch.tanh(c, out=tanh_cells[now])  # (live, H)
            if by_projection is not None:
                h = product(h.to(dtype), by_projection).to(cell.dtype)  # (live, P)
                if clips.projection is not None:
                    h.clamp_(-clips.projection, clips.projection)
            outputs[now] = hidden[:live] = h
        ctx.save_for_backward(recurrent, projection, *start, activations, cells, tanh_cells, outputs)
        ctx.sizes, ctx.clips, ctx.gates_type, ctx.product_type = sizes, clips, gates.dtype, dtype
        return outputs, hidden, cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_hidden: Tensor, d_cell: Tensor) -> tuple[Optional[Tensor], ...]:
        """Gradients of `gates`, `recurrent`, `projection`, `hidden` and `cell`, given those of what came out."""
        recurrent, projection, start_hidden, start_cell, activations, cells, tanh_cells, outputs = ctx.saved_tensors
        d_hidden, d_cell = d_hidden.clone(), d_cell.clone()  # (B, P), (B, H)
        dtype = ctx.product_type
        sizes = ctx.sizes
        by_recurrent = recurrent.to(dtype).t().contiguous()  # (P, 4H)
        by_projection = None if projection is None else projection.to(dtype).t().contiguous()  # (H, P)
        d_gates = torch.empty_like(activations)  # (N, 4H)
        d_raw_outputs = torch.empty_like(outputs)  # (N, P), before the clip
        previous_cells = _previous(cells, start_cell, sizes)  # (N, H)
        for live, now in reversed(_steps(sizes)):
            d_h = torch.add(d_outputs[now], d_hidden[:live], out=d_raw_outputs[now])  # (live, P)
            if by_projection is not None:
                _stop_at_clip(d_h, outputs[now], ctx.clips.projection)
                d_h = product(d_h.to(dtype), by_projection).to(cells.dtype)  # (live, H)
            _, f, _, o = activations[now].chunk(4, dim=-1)  # (live, H) each
            d_c = torch.addcmul(d_cell[:live], d_h, tanh_backward(o, tanh_cells[now]))  # (live, H)
            _stop_at_clip(d_c, cells[now], ctx.clips.cell)
            _backward_through_gates(d_gates[now], activations[now], d_c, previous_cells[now], d_h * tanh_cells[now])
            torch.mul(d_c, f, out=d_cell[:live])
            d_hidden[:live] = product(d_gates[now].to(dtype), by_recurrent)
        cast_gates = d_gates.to(dtype)  # (N, 4H)
        d_recurrent = weight_gradient(cast_gates, _previous(outputs, start_hidden, sizes).to(dtype))  # (4H, P)
        d_projection = None
        if projection is not None:
            emitted = activations[:, -cells.size(1) :] * tanh_cells  # (N, H)
            d_projection = weight_gradient(d_raw_outputs.to(dtype), emitted.to(dtype)).to(projection.dtype)  # (P, H)
        return d_gates.to(ctx.gates_type), d_recurrent.to(recurrent.dtype), d_projection, d_hidden, d_cell, None, None


def _steps(sizes: list[int]) -> list[tuple[int, slice]]:
    """For each time step, how many sentences are live, and where they stand among the N tokens."""
    ends = list(accumulate(sizes))
    return [(live, slice(end - live, end)) for live, end in zip(sizes, ends, strict=True)]


def _activate(gates: Tensor) -> tuple[Tensor, ...]:
    """Gates (live, 4H) to i, f, g, o, in place."""
    i, f, g, o = gates.chunk(4, dim=-1)  # (live, H) each
    gates[:, : 2 * g.size(1)].sigmoid_()
    g.tanh_()
    o.sigmoid_()
    return i, f, g, o


def _backward_through_gates(
    d_gates: Tensor, activations: Tensor, d_c: Tensor, previous_cell: Tensor, d_o: Tensor
) -> None:
    """From the gradients of c* and o to those of the pre-activations (live, 4H), written into `d_gates`."""
    i, f, g, o = activations.chunk(4, dim=-1)  # (live, H) each
    d_i, d_f, d_g, d_out = d_gates.chunk(4, dim=-1)
    sigmoid_backward(d_c * g, i, grad_input=d_i)
    sigmoid_backward(d_c * previous_cell, f, grad_input=d_f)
    tanh_backward(d_c * i, g, grad_input=d_g)
    sigmoid_backward(d_o, o, grad_input=d_out)


def _previous(values: Tensor, start: Tensor, sizes: list[int]) -> Tensor:
    """What each token's sentence had one step before: (N, ·) to (N, ·), `start` (B, ·) at the first step."""
    before = [start[: sizes[0]]] + [
        values[now][:live] for live, (_, now) in zip(sizes[1:], _steps(sizes)[:-1], strict=True)
    ]
    return torch.cat(before)


def _stop_at_clip(gradient: Tensor, clipped: Tensor, bound: Optional[float]) -> None:
    """Zero, in place, where the value lies at its bound."""
    if bound is not None:
        gradient.masked_fill_(clipped.abs() >= bound, 0.0)
