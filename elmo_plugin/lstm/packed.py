"""The recurrence over packed sentences. A hand-written backward pass reuses buffers and records no graph.

One loop serves training and inference, on CPUs and GPUs. A `Pointwise` computes everything between two matrix
products: with torch's operators here, with Triton kernels in `triton.py`.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Optional, Protocol

import torch
from torch import Tensor

from elmo_plugin.lstm.products import pack, product, product_type, product_with, weight_gradient
from elmo_plugin.lstm.types import LstmClips, LstmState

sigmoid_backward, tanh_backward = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward


class Pointwise(Protocol):
    """The element-wise parts of a time step, for its active sentences."""

    def cell_forward(
        self,
        recurrent: Tensor,
        gates: Tensor,
        before: Tensor,
        after: Tensor,
        activations: Optional[Tensor],
        clip: Optional[float],
    ) -> Tensor:
        """Compute [i f g o] = [σ σ tanh σ](gates + recurrent) and c = clip(f·before + i·g), and return o·tanh c.

        c is written to `after`, which may be the same tensor as `before`; i, f, g and o are written to `activations`
        (active, 4H) unless it is `None`. `recurrent` (active, 4H) may be overwritten.
        """

    def output_forward(self, raw: Tensor, output: Tensor, clip: Optional[float]) -> Tensor:
        """Write clip(raw) to `output` (active, P) and return it in any number type."""

    def output_backward(
        self, d_output: Tensor, d_hidden: Tensor, output: Tensor, clip: Optional[float], d_raw: Tensor
    ) -> None:
        """Add the gradients from the output and from the next step, and write the gradient of `raw` to `d_raw`.

        *Shape:* (active, P) each.
        """

    def cell_backward(
        self,
        activations: Tensor,
        before: Tensor,
        after: Tensor,
        d_cell_output: Tensor,
        d_cell: Tensor,
        d_gates: Tensor,
        clip: Optional[float],
    ) -> None:
        """Write the gradient of the gates (active, 4H) to `d_gates`, given the gradient of o·tanh c (active, H).

        `d_cell` (active, H) holds the gradient of `after` on entry, and the gradient of `before` on return.
        """


class Recurrence(torch.autograd.Function):
    """The time steps of an LSTMP after its input product (Sak et al. 2014), at each step t:

        [i f g o] = [σ σ tanh σ](gates + R h)    c = clip(f·c + i·g)    h = clip(W (o · tanh c))

    The backward pass goes through the same steps in reverse (Gers et al. 2000); a clipped value passes no gradient.
    With bfloat16 products everything else stays in the type of the state.

    # Parameters

    gates, recurrent, projection, sizes, clips
        See `Kernel`.
    hidden, cell : `Tensor` (B, P) and (B, H)
        The state before the first token.
    pointwise : `Pointwise`
    keep : `bool`
        Whether to keep what the backward pass needs. Otherwise only the outputs grow with N.
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
        pointwise: Pointwise,
        keep: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the outputs (N, P), and hidden (B, P) and cell (B, H) after each sentence."""
        dtype = product_type(recurrent)
        packed_recurrent, packed_projection = prepack(recurrent, projection, sizes)
        by_recurrent = product_with(packed_recurrent)  # (active, P) to (active, 4H)
        by_projection = None if packed_projection is None else product_with(packed_projection)  # to (active, P)
        clip = _output_clip(projection, clips)
        activations = cell.new_empty(gates.shape) if keep else None  # (N, 4H)
        cells = cell.new_empty(len(gates), cell.size(1)) if keep else None  # (N, H)
        outputs = hidden.new_empty(len(gates), hidden.size(1))  # (N, P)
        kept: Sequence[Optional[Tensor]] = [None] * len(sizes)
        if activations is not None:
            kept = activations.split(sizes)  # (active, 4H) each
        all_cells = None if cells is None else cells.split(sizes)  # (active, H) each
        running_hidden, running_cell = hidden.to(dtype), cell.clone()
        with torch.cuda.device_of(gates):
            for step, (active, gates_now, kept_now, output) in enumerate(
                zip(sizes, gates.split(sizes), kept, outputs.split(sizes), strict=True)
            ):
                before = after = running_cell[:active]  # (active, H)
                if all_cells is not None:
                    before, after = _before(all_cells, cell, step, active), all_cells[step]
                recurrent_part = by_recurrent(running_hidden[:active])  # (active, 4H)
                raw = pointwise.cell_forward(recurrent_part, gates_now, before, after, kept_now, clips.cell)
                if by_projection is not None:
                    raw = by_projection(raw.to(dtype))  # (active, P)
                running_hidden = pointwise.output_forward(raw, output, clip).to(dtype)
        ctx.save_for_backward(recurrent, projection, hidden, cell, activations, cells, outputs)
        ctx.sizes, ctx.clips, ctx.pointwise = sizes, clips, pointwise
        ctx.gates_type, ctx.product_type = gates.dtype, dtype
        final_cell = running_cell if cells is None else _after(cells, cell, sizes)
        return outputs, _after(outputs, hidden, sizes), final_cell

    @staticmethod
    def backward(ctx: Any, d_outputs: Tensor, d_hidden: Tensor, d_cell: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradients of `gates`, `recurrent`, `projection`, `hidden` and `cell`."""
        if torch.is_grad_enabled():  # PyTorch's `once_differentiable` would silently leave out the second derivatives
            raise RuntimeError("this 'kernel' has no second derivatives ('create_graph'): expected 'reference'")
        recurrent, projection, hidden, cell, activations, cells, outputs = ctx.saved_tensors
        sizes, clips, pointwise, dtype = ctx.sizes, ctx.clips, ctx.pointwise, ctx.product_type
        clip = _output_clip(projection, clips)
        by_recurrent = recurrent.to(dtype).t().contiguous()  # (P, 4H)
        by_projection = None if projection is None else projection.to(dtype).t().contiguous()  # (H, P)
        d_outputs = d_outputs.contiguous()  # (N, P)
        d_hidden, d_cell = (part.clone(memory_format=torch.contiguous_format) for part in (d_hidden, d_cell))
        d_gates = torch.empty_like(activations, dtype=dtype)  # (N, 4H)
        d_raw = torch.empty_like(outputs, dtype=outputs.dtype if projection is None else dtype)  # (N, P)
        all_outputs, all_cells, all_d_raw = outputs.split(sizes), cells.split(sizes), d_raw.split(sizes)
        all_activations, all_d_outputs, all_d_gates = (each.split(sizes) for each in (activations, d_outputs, d_gates))
        with torch.cuda.device_of(d_gates):
            for step in reversed(range(len(sizes))):
                active, d_raw_now, d_gates_now = sizes[step], all_d_raw[step], all_d_gates[step]
                pointwise.output_backward(all_d_outputs[step], d_hidden[:active], all_outputs[step], clip, d_raw_now)
                d_cell_output = d_raw_now if by_projection is None else product(d_raw_now, by_projection)  # (active, H)
                before, after = _before(all_cells, cell, step, active), all_cells[step]  # (active, H) each
                pointwise.cell_backward(
                    all_activations[step], before, after, d_cell_output, d_cell[:active], d_gates_now, clips.cell
                )
                d_hidden[:active] = product(d_gates_now, by_recurrent)
        before_each = [_before(all_outputs, hidden, step, active) for step, active in enumerate(sizes)]
        h_before = torch.cat([outputs[:0], *before_each])  # (N, P)
        d_recurrent = weight_gradient(d_gates, h_before.to(dtype)).to(recurrent.dtype)  # (4H, P)
        d_projection = None
        if projection is not None:
            cell_output = tanh_(cells.clone()).mul_(activations[:, -cells.size(1) :])  # (N, H)
            d_projection = weight_gradient(d_raw, cell_output.to(dtype)).to(projection.dtype)  # (P, H)
        return d_gates.to(ctx.gates_type), d_recurrent, d_projection, d_hidden, d_cell, None, None, None, None


class TorchPointwise:
    """`Pointwise` by torch's operators, in place where possible: on a CPU, new memory takes longer than arithmetic."""

    def cell_forward(
        self,
        recurrent: Tensor,
        gates: Tensor,
        before: Tensor,
        after: Tensor,
        activations: Optional[Tensor],
        clip: Optional[float],
    ) -> Tensor:
        """Compute the cell and o·tanh c; see `Pointwise`."""
        recurrent = recurrent.to(before.dtype)
        values = recurrent.add_(gates) if activations is None else torch.add(recurrent, gates, out=activations)
        i, f, g, o = values.chunk(4, dim=-1)  # (active, H) each
        values[:, : 2 * g.size(1)].sigmoid_()
        o.sigmoid_()
        torch.mul(f, before, out=after).addcmul_(i, tanh_(g))
        if clip is not None:
            after.clamp_(-clip, clip)
        return tanh_(after.clone()).mul_(o)

    def output_forward(self, raw: Tensor, output: Tensor, clip: Optional[float]) -> Tensor:
        """Clip the output; see `Pointwise`."""
        output.copy_(raw)
        if clip is not None:
            output.clamp_(-clip, clip)
        return output

    def output_backward(
        self, d_output: Tensor, d_hidden: Tensor, output: Tensor, clip: Optional[float], d_raw: Tensor
    ) -> None:
        """Compute the gradient of the output before its clip; see `Pointwise`."""
        torch.add(d_output, d_hidden, out=d_raw)
        _stop_at_clip(d_raw, output, clip)

    def cell_backward(
        self,
        activations: Tensor,
        before: Tensor,
        after: Tensor,
        d_cell_output: Tensor,
        d_cell: Tensor,
        d_gates: Tensor,
        clip: Optional[float],
    ) -> None:
        """Compute the gradients of the gates and of the cell before; see `Pointwise`."""
        i, f, g, o = activations.chunk(4, dim=-1)  # (active, H) each
        d_i, d_f, d_g, d_o = d_gates.chunk(4, dim=-1)
        d_cell_output, tanh_c = d_cell_output.to(after.dtype), tanh_(after.clone())
        d_c = torch.addcmul(d_cell, d_cell_output, tanh_backward(o, tanh_c))  # (active, H)
        _stop_at_clip(d_c, after, clip)
        sigmoid_backward(d_c * g, i, grad_input=d_i)
        sigmoid_backward(d_c * before, f, grad_input=d_f)
        tanh_backward(d_c * i, g, grad_input=d_g)
        sigmoid_backward(d_cell_output * tanh_c, o, grad_input=d_o)
        torch.mul(d_c, f, out=d_cell)


TORCH_POINTWISE = TorchPointwise()


def packed(
    gates: Tensor,
    sizes: list[int],
    recurrent: Tensor,
    projection: Optional[Tensor],
    state: LstmState,
    clips: LstmClips,
    pointwise: Pointwise = TORCH_POINTWISE,
) -> tuple[Tensor, LstmState]:
    """Run the recurrence, by torch's operators unless another `pointwise` is given; see `Kernel`.

    State and outputs are float32, or float64. Tensors for the backward pass are kept only if there will be one.
    """
    dtype = torch.promote_types(state.cell.dtype, torch.float32)
    hidden, cell = (part.to(dtype).contiguous() for part in state)  # (B, P), (B, H)
    tensors = (gates, recurrent, projection, hidden, cell)
    keep = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)
    outputs, hidden, cell = Recurrence.apply(*tensors, sizes, clips, pointwise, keep)
    return outputs, LstmState(hidden, cell)


def prepack(recurrent: Tensor, projection: Optional[Tensor], sizes: list[int]) -> tuple[Tensor, Optional[Tensor]]:
    """Prepare weights for the products of `packed` and `fused` without gradients, for steps of these `sizes`.

    Prepared weights are returned as they are, so a text that is read in blocks needs this only once.
    """
    dtype, rows, times = product_type(recurrent), max(sizes, default=0), len(sizes)
    recurrent = pack(recurrent.to(dtype), rows, times, keep=True)
    return recurrent, None if projection is None else pack(projection.to(dtype), rows, times)


def tanh_(values: Tensor) -> Tensor:
    """Compute tanh x = 2 σ(2x) − 1 in place. On a CPU it takes a third of `torch.tanh`'s time, with errors as small."""
    return values.mul_(2).sigmoid_().mul_(2).sub_(1)


def _before(values: Sequence[Tensor], start: Tensor, step: int, active: int) -> Tensor:
    """Return the values (active, ·) of a step's sentences one step earlier: at the first step, from `start` (B, ·)."""
    return (values[step - 1] if step else start)[:active]


def _after(values: Tensor, start: Tensor, sizes: list[int]) -> Tensor:
    """Return the last value of each sentence (B, ·). An empty sentence has its value in `start`."""
    steps = list(zip(accumulate(sizes, initial=0), sizes, [*sizes[1:], 0], strict=False))
    # Sentences are sorted by length, the longest first, so the last step has the first rows.
    rows = [begin + row for begin, active, remaining in reversed(steps) for row in range(remaining, active)]
    return torch.cat([values[torch.tensor(rows, dtype=torch.long, device=values.device)], start[len(rows) :]])


def _output_clip(projection: Optional[Tensor], clips: LstmClips) -> Optional[float]:
    """Return the clip of the output. TensorFlow's `LSTMCell` applies `proj_clip` only if there is a projection."""
    return None if projection is None else clips.projection


def _stop_at_clip(gradient: Tensor, clipped: Tensor, bound: Optional[float]) -> None:
    """Set a gradient to zero, in place, where the clipped value is at its bound."""
    if bound is not None:
        gradient.masked_fill_(clipped.abs() >= bound, 0.0)
