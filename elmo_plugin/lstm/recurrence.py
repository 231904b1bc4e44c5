"""The kernel `packed`: the recurrence over sentences in step order, with a hand-written backward pass.

One loop serves both directions, training and inference. It reuses buffers and records no graph. `Steps` are all time
steps of a layer: by torch's operators here, which is fastest on CPUs, and in one launch of a GPU kernel in `triton.py`.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Optional, Protocol

import torch
from torch import Tensor

from elmo_plugin.lstm.products import DifferentiableProduct, fastest_product, product_type, weight_gradient
from elmo_plugin.lstm.types import LstmClips, LstmState, Product

MINUS_TWO = torch.tensor(-2.0)
"""A tensor: with a number, PyTorch needs twice the time for a few values."""

sigmoid_backward, tanh_backward = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward


class Steps(Protocol):
    """All time steps of an LSTMP after its input product, without a graph."""

    def forward(
        self,
        gates: Tensor,
        sizes: list[int],
        recurrent: Product,
        projection: Optional[Product],
        state: LstmState,
        clips: LstmClips,
        outputs: Tensor,
        activations: Optional[Tensor] = None,
        cells: Optional[Tensor] = None,
    ) -> LstmState:
        """Run the steps, and return the state after each sentence (Sak et al. 2014). At each step t:

            [i f g o] = [σ σ tanh σ](gates + R h)    c = clip(f·c + i·g)    h = clip(W (o · tanh c))

        h is written to `outputs` (R, N, P); if they are given, i, f, g and o to `activations` (R, N, 4H), and c to
        `cells` (R, N, H). `state` is not changed.
        """

    def backward(
        self,
        sizes: list[int],
        weights: Sequence[Tensor],
        state: LstmState,
        clips: LstmClips,
        activations: Tensor,
        cells: Tensor,
        outputs: Tensor,
        d_outputs: Tensor,
        d_state: LstmState,
        d_gates: Tensor,
        d_raw: Tensor,
    ) -> LstmState:
        """Run the steps in reverse (Gers et al. 2000), and return the gradients of `state`, the one before them.

        `weights` are the recurrent weights of all directions, and then their projections if they have any. The
        gradients of `gates` are written to `d_gates` (R, N, 4H), and those of h before its clip to `d_raw` (R, N, P);
        both have the type of products. A clipped value passes no gradient.
        """


class TorchSteps(Steps):
    """`Steps` by torch's operators."""

    @torch.no_grad()
    def forward(
        self,
        gates: Tensor,
        sizes: list[int],
        recurrent: Product,
        projection: Optional[Product],
        state: LstmState,
        clips: LstmClips,
        outputs: Tensor,
        activations: Optional[Tensor] = None,
        cells: Optional[Tensor] = None,
    ) -> LstmState:
        """Run the steps forward; see `Steps`."""
        most = max(sizes, default=0)
        if isinstance(recurrent, DifferentiableProduct):  # in training
            recurrent = fastest_product(recurrent.weights, most, len(sizes))
        if isinstance(projection, DifferentiableProduct):
            projection = fastest_product(projection.weights, most, len(sizes))
        start_hidden, start_cell = state
        hidden, cell = start_hidden, start_cell
        if cells is None:
            cell = cell.clone(memory_format=torch.contiguous_format)  # c replaces it
        clip = _output_clip(projection, clips)
        values, cell_output = (cell.new_empty(cell.size(0), most, width) for width in (gates.size(2), cell.size(2)))
        kept = None if activations is None else activations.split(sizes, dim=1)  # (R, active, 4H) each
        all_cells = None if cells is None else cells.split(sizes, dim=1)  # (R, active, H) each
        quarters = values.chunk(4, dim=-1)  # (R, active, H) each
        last_cell = before = after = cell
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
            cell_forward(values, quarters, before, after, cell_output, clips.cell, keep=kept is not None)
            if projection is None:
                output.copy_(cell_output)
            else:
                projection(cell_output, out=output)
                if clip is not None:
                    output.clamp_(-clip, clip)
            hidden, before = output, after
        if cells is not None:
            last_cell = _after(cells, start_cell, sizes)
        return LstmState(_after(outputs, start_hidden, sizes), last_cell)

    def backward(
        self,
        sizes: list[int],
        weights: Sequence[Tensor],
        state: LstmState,
        clips: LstmClips,
        activations: Tensor,
        cells: Tensor,
        outputs: Tensor,
        d_outputs: Tensor,
        d_state: LstmState,
        d_gates: Tensor,
        d_raw: Tensor,
    ) -> LstmState:
        """Run the steps in reverse; see `Steps`."""
        cell = state.cell
        transposed = [weight.to(d_gates.dtype).t().contiguous() for weight in weights]  # (P, 4H), and (H, P)
        by_recurrent, by_projection = _products(transposed, len(outputs), sizes)
        clip = _output_clip(by_projection, clips)
        d_hidden, d_cell = (part.clone(memory_format=torch.contiguous_format) for part in d_state)
        d_cell_outputs = cell.new_empty(cell.size(0), max(sizes, default=0), cell.size(2))  # (R, active, H)
        all_outputs, all_cells, all_d_raw = (each.split(sizes, dim=1) for each in (outputs, cells, d_raw))
        steps = [each.split(sizes, dim=1) for each in (activations, d_outputs, d_gates)]
        for step in reversed(range(len(sizes))):
            active, d_raw_now = sizes[step], all_d_raw[step]
            activations_now, d_outputs_now, d_gates_now = (each[step] for each in steps)
            torch.add(d_outputs_now, d_hidden[:, :active], out=d_raw_now)
            _stop_at_clip(d_raw_now, all_outputs[step], clip)
            d_cell_output = d_raw_now
            if by_projection is not None:
                d_cell_output = by_projection(d_raw_now, out=d_cell_outputs[:, :active])  # (R, active, H)
            before, after = _before(all_cells, cell, step, active), all_cells[step]  # (R, active, H) each
            cell_backward(activations_now, before, after, d_cell_output, d_cell[:, :active], d_gates_now, clips.cell)
            by_recurrent(d_gates_now, out=d_hidden[:, :active])
        return LstmState(d_hidden, d_cell)


TORCH_STEPS = TorchSteps()


def cell_forward(
    gates: Tensor,
    quarters: Sequence[Tensor],
    before: Tensor,
    after: Tensor,
    cell_output: Tensor,
    clip: Optional[float],
    keep: bool,
) -> None:
    """Compute [i f g o] = [σ σ tanh σ](gates) and c = clip(f·before + i·g) of a step, in place.

    c is written to `after`, which may be the same tensor as `before`, and o·tanh c to `cell_output`; these are (R,
    active, H). `gates` (R, active, 4H) is overwritten, with `keep` by i, f, g and o. `quarters` are the four parts of
    `gates`, (R, active, H) each.

    tanh x = 2 σ(2x) − 1: on a CPU it takes a third of `torch.tanh`'s time, with errors as small.
    """
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


def cell_backward(
    activations: Tensor,
    before: Tensor,
    after: Tensor,
    d_cell_output: Tensor,
    d_cell: Tensor,
    d_gates: Tensor,
    clip: Optional[float],
) -> None:
    """Write the gradient of a step's gates (R, active, 4H) to `d_gates`, given that of o·tanh c (R, active, H).

    `d_cell` (R, active, H) holds the gradient of `after` on entry, and the gradient of `before` on return.
    """
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


def packed(
    gates: Tensor,
    sizes: list[int],
    recurrent: Product,
    projection: Optional[Product],
    state: LstmState,
    clips: LstmClips,
    steps: Steps = TORCH_STEPS,
) -> tuple[Tensor, LstmState]:
    """Run the recurrence, by torch's operators unless other `steps` are given; see `Kernel`.

    State and outputs are float32, or float64. Tensors for the backward pass are kept only if there will be one.
    """
    dtype = torch.promote_types(state.cell.dtype, torch.float32)
    state = LstmState(state.hidden.to(dtype), state.cell.to(dtype))  # (R, B, P), (R, B, H)
    if torch.is_grad_enabled():
        weights = (*recurrent.weights, *(() if projection is None else projection.weights))
        tensors = (gates, *state, *weights)
        if any(tensor.requires_grad for tensor in tensors):
            outputs, hidden, cell = Recurrence.apply(sizes, clips, steps, recurrent, projection, *tensors)
            return outputs, LstmState(hidden, cell)
    outputs = state.hidden.new_empty(gates.size(0), gates.size(1), state.hidden.size(2))  # (R, N, P)
    return outputs, steps.forward(gates, sizes, recurrent, projection, state, clips, outputs)


class Recurrence(torch.autograd.Function):
    """`Steps` with gradients. With bfloat16 products everything else stays in the type of the state."""

    @staticmethod
    def forward(
        ctx: Any,
        sizes: list[int],
        clips: LstmClips,
        steps: Steps,
        recurrent: Product,
        projection: Optional[Product],
        gates: Tensor,
        hidden: Tensor,
        cell: Tensor,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the outputs (R, N, P), and hidden (R, B, P) and cell (R, B, H) after each sentence.

        `weights` are as in `Steps.backward`.
        """
        directions, tokens, _ = gates.shape
        activations = cell.new_empty(gates.shape)  # (R, N, 4H)
        cells = cell.new_empty(directions, tokens, cell.size(2))  # (R, N, H)
        outputs = hidden.new_empty(directions, tokens, hidden.size(2))  # (R, N, P)
        state = LstmState(hidden, cell)
        after = steps.forward(gates, sizes, recurrent, projection, state, clips, outputs, activations, cells)
        ctx.save_for_backward(hidden, cell, activations, cells, outputs, *weights)
        ctx.sizes, ctx.clips, ctx.steps = sizes, clips, steps
        ctx.gates_type, ctx.product_type = gates.dtype, product_type(weights[0])
        return outputs, *after

    @staticmethod
    def backward(ctx: Any, d_outputs: Tensor, d_hidden: Tensor, d_cell: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradients of `gates`, `hidden`, `cell` and the weights."""
        if torch.is_grad_enabled():  # PyTorch's `once_differentiable` would silently leave out the second derivatives
            raise RuntimeError("this 'kernel' has no second derivatives ('create_graph'): expected 'reference'")
        hidden, cell, activations, cells, outputs, *weights = ctx.saved_tensors
        sizes, dtype, has_projection = ctx.sizes, ctx.product_type, len(weights) > len(outputs)
        d_gates = torch.empty_like(activations, dtype=dtype)  # (R, N, 4H)
        d_raw = torch.empty_like(outputs, dtype=dtype if has_projection else outputs.dtype)  # (R, N, P)
        d_state = ctx.steps.backward(
            sizes,
            weights,
            LstmState(hidden, cell),
            ctx.clips,
            activations,
            cells,
            outputs,
            d_outputs,
            LstmState(d_hidden, d_cell),
            d_gates,
            d_raw,
        )
        all_outputs = outputs.split(sizes, dim=1)
        before_each = [_before(all_outputs, hidden, step, active) for step, active in enumerate(sizes)]
        h_before = torch.cat([outputs[:, :0], *before_each], dim=1).to(dtype)  # (R, N, P)
        d_weights = [weight_gradient(*pair) for pair in zip(d_gates, h_before, strict=True)]  # (4H, P) each
        if has_projection:
            cell_outputs = _tanh(cells).mul_(activations[..., -cells.size(2) :]).to(dtype)  # (R, N, H)
            d_weights += [weight_gradient(*pair) for pair in zip(d_raw, cell_outputs, strict=True)]  # (P, H) each
        d_weights = [gradient.to(weight.dtype) for gradient, weight in zip(d_weights, weights, strict=True)]
        return None, None, None, None, None, d_gates.to(ctx.gates_type), *d_state, *d_weights


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
