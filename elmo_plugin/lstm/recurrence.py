"""The kernel `packed`: the recurrence over sentences in step order, with a hand-written backward pass.

One loop serves both directions, training and inference, CPUs and GPUs. It reuses buffers and records no graph. A
`Pointwise` computes everything between two matrix products: with torch's operators here, with Triton kernels in
`triton.py`.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Optional, Protocol

import torch
from torch import Tensor

from elmo_plugin.lstm.products import fastest_product, product_type, weight_gradient
from elmo_plugin.lstm.types import LstmClips, LstmState, Product

MINUS_TWO = torch.tensor(-2.0)
"""A tensor: with a number, PyTorch needs twice the time for a few values."""

sigmoid_backward, tanh_backward = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward


class Pointwise(Protocol):
    """The element-wise parts of a time step, for its active sentences, in place."""

    def cell_forward(
        self,
        gates: Tensor,
        quarters: Sequence[Tensor],
        before: Tensor,
        after: Tensor,
        cell_output: Tensor,
        clip: Optional[float],
        keep: bool,
    ) -> None:
        """Compute [i f g o] = [σ σ tanh σ](gates) and c = clip(f·before + i·g).

        c is written to `after`, which may be the same tensor as `before`, and o·tanh c to `cell_output`; these are
        (R, active, H). `gates` (R, active, 4H) is overwritten, with `keep` by i, f, g and o. `quarters` are the four
        parts of `gates`, (R, active, H) each.
        """

    def output_backward(
        self, d_output: Tensor, d_hidden: Tensor, output: Tensor, clip: Optional[float], d_raw: Tensor
    ) -> None:
        """Add the gradients from the output and from the next step, and write the gradient before the clip to `d_raw`.

        *Shape:* (R, active, P) each.
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
        """Write the gradient of the gates (R, active, 4H) to `d_gates`, given that of o·tanh c (R, active, H).

        `d_cell` (R, active, H) holds the gradient of `after` on entry, and the gradient of `before` on return.
        """


class TorchPointwise:
    """`Pointwise` by torch's operators.

    tanh x = 2 σ(2x) − 1: on a CPU it takes a third of `torch.tanh`'s time, with errors as small.
    """

    def cell_forward(
        self,
        gates: Tensor,
        quarters: Sequence[Tensor],
        before: Tensor,
        after: Tensor,
        cell_output: Tensor,
        clip: Optional[float],
        keep: bool,
    ) -> None:
        """Compute the cell and o·tanh c; see `Pointwise`."""
        i, f, g, o = quarters
        g.add_(g)
        gates.sigmoid_()
        torch.mul(f, before, out=after).addcmul_(i, g, value=2).sub_(i)  # i·tanh x = 2 i σ(2x) − i
        if clip is not None:
            after.clamp_(-clip, clip)
        torch.mul(after, MINUS_TWO, out=cell_output).sigmoid_()
        torch.addcmul(o, o, cell_output, value=-2, out=cell_output)  # o·tanh c = o − 2 o σ(−2c)
        if keep:
            g.mul_(2).sub_(1)

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
        i, f, g, o = activations.chunk(4, dim=-1)  # (R, active, H) each
        d_i, d_f, d_g, d_o = d_gates.chunk(4, dim=-1)
        d_cell_output, tanh_c = d_cell_output.to(after.dtype), _tanh(after)
        d_c = torch.addcmul(d_cell, d_cell_output, tanh_backward(o, tanh_c))  # (R, active, H)
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
    recurrent: Product,
    projection: Optional[Product],
    state: LstmState,
    clips: LstmClips,
    pointwise: Pointwise = TORCH_POINTWISE,
) -> tuple[Tensor, LstmState]:
    """Run the recurrence, by torch's operators unless another `pointwise` is given; see `Kernel`.

    State and outputs are float32, or float64. Tensors for the backward pass are kept only if there will be one.
    """
    dtype = torch.promote_types(state.cell.dtype, torch.float32)
    hidden, cell = state.hidden.to(dtype), state.cell.to(dtype)  # (R, B, P), (R, B, H)
    if torch.is_grad_enabled():
        weights = (*recurrent.weights, *(() if projection is None else projection.weights))
        tensors = (gates, hidden, cell, *weights)
        if any(tensor.requires_grad for tensor in tensors):
            outputs, hidden, cell = Recurrence.apply(sizes, clips, pointwise, *tensors)
            return outputs, LstmState(hidden, cell)
    outputs = hidden.new_empty(gates.size(0), gates.size(1), hidden.size(2))  # (R, N, P)
    cell = cell.clone(memory_format=torch.contiguous_format)
    run_steps(gates, sizes, recurrent, projection, hidden, cell, clips, pointwise, outputs)
    return outputs, LstmState(_after(outputs, hidden, sizes), cell)


@torch.no_grad()
def run_steps(
    gates: Tensor,
    sizes: list[int],
    recurrent: Product,
    projection: Optional[Product],
    hidden: Tensor,
    cell: Tensor,
    clips: LstmClips,
    pointwise: Pointwise,
    outputs: Tensor,
    activations: Optional[Tensor] = None,
    cells: Optional[Tensor] = None,
) -> None:
    """Run the time steps of an LSTMP after its input product (Sak et al. 2014). At each step t:

        [i f g o] = [σ σ tanh σ](gates + R h)    c = clip(f·c + i·g)    h = clip(W (o · tanh c))

    h is written to `outputs` (R, N, P). With `activations` (R, N, 4H) and `cells` (R, N, H), i, f, g, o and c are
    written there. Otherwise c replaces `cell`, so that this holds the last cell of each sentence.
    """
    most, clip = max(sizes, default=0), _output_clip(projection, clips)
    values, cell_output = (cell.new_empty(cell.size(0), most, width) for width in (gates.size(2), cell.size(2)))
    kept = None if activations is None else activations.split(sizes, dim=1)  # (R, active, 4H) each
    all_cells = None if cells is None else cells.split(sizes, dim=1)  # (R, active, H) each
    quarters = values.chunk(4, dim=-1)  # (R, active, H) each
    before = after = cell
    for step, (active, start, output) in enumerate(
        zip(sizes, gates.split(sizes, dim=1), outputs.split(sizes, dim=1), strict=True)
    ):
        if active < hidden.size(1):  # some sentences have ended
            hidden, before, after = hidden[:, :active], before[:, :active], after[:, :active]
        if active < cell_output.size(1):
            values, cell_output = values[:, :active], cell_output[:, :active]
            quarters = values.chunk(4, dim=-1)
        if kept is not None and all_cells is not None:
            values, after = kept[step], all_cells[step]
            quarters = values.chunk(4, dim=-1)
        recurrent(hidden, start, values)
        pointwise.cell_forward(values, quarters, before, after, cell_output, clips.cell, keep=kept is not None)
        if projection is None:
            output.copy_(cell_output)
        else:
            projection(cell_output, out=output)
            if clip is not None:
                output.clamp_(-clip, clip)
        hidden, before = output, after


class Recurrence(torch.autograd.Function):
    """`run_steps` with gradients. The backward pass goes through the same steps in reverse (Gers et al. 2000).

    A clipped value passes no gradient. With bfloat16 products everything else stays in the type of the state.
    """

    @staticmethod
    def forward(
        ctx: Any,
        sizes: list[int],
        clips: LstmClips,
        pointwise: Pointwise,
        gates: Tensor,
        hidden: Tensor,
        cell: Tensor,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the outputs (R, N, P), and hidden (R, B, P) and cell (R, B, H) after each sentence.

        `weights` are the recurrent weights of all directions, and then their projections if they have any.
        """
        directions, tokens, _ = gates.shape
        recurrent, projection = _products(weights, directions, sizes)
        activations = cell.new_empty(gates.shape)  # (R, N, 4H)
        cells = cell.new_empty(directions, tokens, cell.size(2))  # (R, N, H)
        outputs = hidden.new_empty(directions, tokens, hidden.size(2))  # (R, N, P)
        run_steps(gates, sizes, recurrent, projection, hidden, cell, clips, pointwise, outputs, activations, cells)
        ctx.save_for_backward(hidden, cell, activations, cells, outputs, *weights)
        ctx.sizes, ctx.clips, ctx.pointwise = sizes, clips, pointwise
        ctx.gates_type, ctx.product_type = gates.dtype, product_type(weights[0])
        return outputs, _after(outputs, hidden, sizes), _after(cells, cell, sizes)

    @staticmethod
    def backward(ctx: Any, d_outputs: Tensor, d_hidden: Tensor, d_cell: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradients of `gates`, `hidden`, `cell` and the weights."""
        if torch.is_grad_enabled():  # PyTorch's `once_differentiable` would silently leave out the second derivatives
            raise RuntimeError("this 'kernel' has no second derivatives ('create_graph'): expected 'reference'")
        hidden, cell, activations, cells, outputs, *weights = ctx.saved_tensors
        sizes, clips, pointwise, dtype = ctx.sizes, ctx.clips, ctx.pointwise, ctx.product_type
        transposed = [weight.to(dtype).t().contiguous() for weight in weights]  # (P, 4H), and (H, P)
        by_recurrent, by_projection = _products(transposed, len(outputs), sizes)
        clip = _output_clip(by_projection, clips)
        d_hidden, d_cell = (part.clone(memory_format=torch.contiguous_format) for part in (d_hidden, d_cell))
        d_gates = torch.empty_like(activations, dtype=dtype)  # (R, N, 4H)
        d_raw = torch.empty_like(outputs, dtype=outputs.dtype if by_projection is None else dtype)  # (R, N, P)
        d_cell_outputs = cell.new_empty(cell.size(0), max(sizes, default=0), cell.size(2))  # (R, active, H)
        all_outputs, all_cells, all_d_raw = (each.split(sizes, dim=1) for each in (outputs, cells, d_raw))
        steps = [each.split(sizes, dim=1) for each in (activations, d_outputs, d_gates)]
        for step in reversed(range(len(sizes))):
            active, d_raw_now = sizes[step], all_d_raw[step]
            activations_now, d_outputs_now, d_gates_now = (each[step] for each in steps)
            pointwise.output_backward(d_outputs_now, d_hidden[:, :active], all_outputs[step], clip, d_raw_now)
            d_cell_output = d_raw_now
            if by_projection is not None:
                d_cell_output = by_projection(d_raw_now, out=d_cell_outputs[:, :active])  # (R, active, H)
            before, after = _before(all_cells, cell, step, active), all_cells[step]  # (R, active, H) each
            pointwise.cell_backward(
                activations_now, before, after, d_cell_output, d_cell[:, :active], d_gates_now, clips.cell
            )
            by_recurrent(d_gates_now, out=d_hidden[:, :active])
        before_each = [_before(all_outputs, hidden, step, active) for step, active in enumerate(sizes)]
        h_before = torch.cat([outputs[:, :0], *before_each], dim=1).to(dtype)  # (R, N, P)
        d_weights = [weight_gradient(*pair) for pair in zip(d_gates, h_before, strict=True)]  # (4H, P) each
        if by_projection is not None:
            cell_outputs = _tanh(cells).mul_(activations[..., -cells.size(2) :]).to(dtype)  # (R, N, H)
            d_weights += [weight_gradient(*pair) for pair in zip(d_raw, cell_outputs, strict=True)]  # (P, H) each
        d_weights = [gradient.to(weight.dtype) for gradient, weight in zip(d_weights, weights, strict=True)]
        return None, None, None, d_gates.to(ctx.gates_type), d_hidden, d_cell, *d_weights


def _products(weights: Sequence[Tensor], directions: int, sizes: list[int]) -> tuple[Product, Optional[Product]]:
    """Return the recurrent product and the projection, from the recurrent weights and then the projections."""
    parts = [weights[start : start + directions] for start in range(0, len(weights), directions)]
    products = [fastest_product(part, max(sizes, default=0), len(sizes)) for part in parts]
    return products[0], products[1] if len(products) == 2 else None


def _tanh(values: Tensor) -> Tensor:
    """Compute tanh x = 2 σ(2x) − 1."""
    return values.mul(2).sigmoid_().mul_(2).sub_(1)


def _before(values: Sequence[Tensor], start: Tensor, step: int, active: int) -> Tensor:
    """Return the values (R, active, ·) of a step's sentences one step earlier: at the first step, from `start`."""
    return (values[step - 1] if step else start)[:, :active]


def _after(values: Tensor, start: Tensor, sizes: list[int]) -> Tensor:
    """Return the last value of each sentence (R, B, ·). An empty sentence has its value in `start`."""
    if sizes and sizes[-1] == start.size(1):  # all sentences have the same length
        return values[:, -sizes[-1] :].clone()
    steps = list(zip(accumulate(sizes, initial=0), sizes, [*sizes[1:], 0], strict=False))
    # Sentences are sorted by length, the longest first, so the last step has the first rows.
    rows = [begin + row for begin, active, remaining in reversed(steps) for row in range(remaining, active)]
    last = values[:, torch.tensor(rows, dtype=torch.long, device=values.device)]  # (R, sentences that are not empty, ·)
    return last if len(rows) == start.size(1) else torch.cat([last, start[:, len(rows) :]], dim=1)


def _output_clip(projection: Optional[Product], clips: LstmClips) -> Optional[float]:
    """Return the clip of the output. TensorFlow's `LSTMCell` applies `proj_clip` only if there is a projection."""
    return None if projection is None else clips.projection


def _stop_at_clip(gradient: Tensor, clipped: Tensor, bound: Optional[float]) -> None:
    """Set a gradient to zero, in place, where the clipped value is at its bound."""
    if bound is not None:
        gradient.masked_fill_(clipped.abs() >= bound, 0.0)
