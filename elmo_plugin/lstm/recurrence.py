"""The kernel `packed`: the recurrence over sentences in step order, with a hand-written backward pass.

One loop serves both directions, training and inference. It reuses buffers and records no graph. All time steps of a
layer are run by torch's operators here, which is fastest on CPUs, and in one launch of a GPU kernel in `triton.py`.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from elmo_plugin.lstm.layer_products import DifferentiableProduct, fastest_product
from elmo_plugin.lstm.types import LstmClips, LstmInputs, LstmState, Product
from elmo_plugin.tensors import product_type, weight_gradient

APART = 2**22
"""The numbers of a recurrent weight, 16 MiB in float32, from which one direction is read after the other: a cache that
does not hold the weights of both may hold those of one."""
MINUS_TWO = torch.tensor(-2.0)
"""A tensor: with a number, PyTorch needs more time for a few values."""

sigmoid_backward, tanh_backward = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward


class Trace(NamedTuple):
    """What the steps write, in step order: h, and for a backward pass i, f, g and o, and c.

    *Shape:* outputs (R, N, P) · activations (R, N, 4H) · cells (R, N, H).
    """

    outputs: Tensor
    activations: Optional[Tensor] = None
    cells: Optional[Tensor] = None

    def only(self, direction: int) -> "Trace":
        """Return the part of one direction, R = 1."""
        return Trace(*(None if part is None else part[direction : direction + 1] for part in self))  # type: ignore[arg-type]


class Gradients(NamedTuple):
    """The gradients that a backward pass reads, of outputs and of the last state, and those that it writes.

    It writes the gradients of `gates` and of `raw`, which is h before its clip, in the type of products.

    *Shape:* outputs, raw (R, N, P) · state (R, B, P) and (R, B, H) · gates (R, N, 4H).
    """

    outputs: Tensor
    state: LstmState
    gates: Tensor
    raw: Tensor


@torch.no_grad()
def forward_steps(inputs: LstmInputs, trace: Trace) -> LstmState:
    """Run the steps, and return the state after each sentence (Sak et al. 2014). At each step t:

        [i f g o] = [σ σ tanh σ](gates + R h)    c = clip(f·c + i·g)    h = clip(W (o · tanh c))

    `trace` is written, and `inputs` do not change.
    """
    gates, sizes, recurrent, projection, (hidden, cell), clips = inputs
    directions, widths = len(gates), (gates.size(2), cell.size(2), hidden.size(2))
    if directions > 1 and gates.device.type == "cpu" and recurrent.weights[0].numel() >= APART:
        each = [forward_steps(inputs.only(number), trace.only(number)) for number in range(directions)]
        return LstmState(*map(torch.cat, zip(*each, strict=True)))
    recurrent, projection = _prepared(recurrent, sizes), _prepared(projection, sizes)
    before, active = cell.clone(memory_format=torch.contiguous_format), -1
    last_cell = before
    kept = None if trace.activations is None else trace.activations.split(sizes, dim=1)  # (R, active, 4H) each
    cells = None if trace.cells is None else trace.cells.split(sizes, dim=1)  # (R, active, H) each
    steps = zip(sizes, gates.split(sizes, dim=1), trace.outputs.split(sizes, dim=1), strict=True)
    for step, (size, start, output) in enumerate(steps):
        if size != active:  # some sentences have ended
            active = size
            hidden, before = hidden[:, :active], before[:, :active]
            values, cell_output, raw = (cell.new_empty(directions, active, width) for width in widths)
            quarters = values.chunk(4, dim=-1)  # (R, active, H) each
        after = before
        if kept is not None and cells is not None:
            values, after = kept[step], cells[step]
            quarters = values.chunk(4, dim=-1)
        recurrent(hidden, start, values)
        cell_forward(values, quarters, before, after, cell_output, clips.cell, keep=kept is not None)
        h = cell_output if projection is None else projection(cell_output, out=raw)
        if clips.projection is None:
            output.copy_(h)
        else:
            torch.clamp(h, -clips.projection, clips.projection, out=output)
        hidden, before = output, after
    last_cell = last_cell if trace.cells is None else _after(trace.cells, cell, sizes)
    return LstmState(_after(trace.outputs, inputs.state.hidden, sizes), last_cell)


def backward_steps(inputs: LstmInputs, trace: Trace, gradients: Gradients) -> LstmState:
    """Run the steps in reverse (Gers et al. 2000), and return the gradients of the state before them.

    The `gates` of `inputs` are not read. A clipped value passes no gradient.
    """
    sizes, cell, clips = inputs.sizes, inputs.state.cell, inputs.clips
    assert trace.activations is not None and trace.cells is not None
    by_recurrent = _transposed(inputs.recurrent, gradients.gates.dtype, sizes)
    by_projection = inputs.projection and _transposed(inputs.projection, gradients.gates.dtype, sizes)
    d_hidden, d_cell = (part.clone(memory_format=torch.contiguous_format) for part in gradients.state)
    d_cell_outputs = cell.new_empty(cell.size(0), max(sizes, default=0), cell.size(2))  # (R, active, H)
    all_outputs, all_activations, all_cells = (
        each.split(sizes, dim=1) for each in (trace.outputs, trace.activations, trace.cells)
    )
    steps = [each.split(sizes, dim=1) for each in (gradients.outputs, gradients.gates, gradients.raw)]
    for step in reversed(range(len(sizes))):
        active = sizes[step]
        d_output, d_gates, d_raw = (each[step] for each in steps)
        torch.add(d_output, d_hidden[:, :active], out=d_raw)
        _stop_at_clip(d_raw, all_outputs[step], clips.projection)
        out = d_cell_outputs[:, :active]  # (R, active, H)
        d_cell_output = d_raw if by_projection is None else by_projection(d_raw, out=out)
        before, after = _before(all_cells, cell, step, active), all_cells[step]  # (R, active, H) each
        cell_backward(all_activations[step], before, after, d_cell_output, d_cell[:, :active], d_gates, clips.cell)
        by_recurrent(d_gates, out=d_hidden[:, :active])
    return LstmState(d_hidden, d_cell)


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

    tanh x = 2 σ(2x) − 1: on a CPU this is faster than `torch.tanh`, with errors as small.
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


Forward = Callable[[LstmInputs, Trace], LstmState]
Backward = Callable[[LstmInputs, Trace, Gradients], LstmState]


def packed(
    inputs: LstmInputs, forward: Forward = forward_steps, backward: Backward = backward_steps
) -> tuple[Tensor, LstmState]:
    """Run the recurrence, by torch's operators unless other functions for all steps are given; see `Kernel`.

    State and outputs are float32, or float64. Tensors for the backward pass are kept only if there will be one.
    """
    gates, _, recurrent, projection, (hidden, cell), clips = inputs
    dtype = torch.promote_types(cell.dtype, torch.float32)
    state = LstmState(hidden.to(dtype), cell.to(dtype))  # (R, B, P), (R, B, H)
    # TensorFlow's `LSTMCell` applies `proj_clip` only if there is a projection.
    inputs = inputs._replace(state=state, clips=clips if projection is not None else LstmClips(clips.cell))
    tensors = (gates, *state, *recurrent.weights, *(() if projection is None else projection.weights))
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        outputs, *after = Recurrence.apply(inputs, forward, backward, *tensors)
        return outputs, LstmState(*after)
    outputs = inputs.state.hidden.new_empty(*gates.shape[:2], hidden.size(2))  # (R, N, P)
    return outputs, forward(inputs, Trace(outputs))


class Recurrence(torch.autograd.Function):
    """All steps with gradients. With bfloat16 products everything else stays in the type of the state."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: LstmInputs,
        forward: Forward,
        backward: Backward,
        gates: Tensor,
        hidden: Tensor,
        cell: Tensor,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the outputs (R, N, P), and hidden (R, B, P) and cell (R, B, H) after each sentence.

        The tensors of `inputs` are given again, since autograd does not look into a tuple: `weights` are the recurrent
        weights of all directions, and then their projections if they have any.
        """
        trace = Trace(
            outputs=hidden.new_empty(*gates.shape[:2], hidden.size(2)),
            activations=cell.new_empty(gates.shape),
            cells=cell.new_empty(*gates.shape[:2], cell.size(2)),
        )
        after = forward(inputs, trace)
        ctx.save_for_backward(hidden, cell, *trace, *weights)
        ctx.sizes, ctx.clips, ctx.backward_steps = inputs.sizes, inputs.clips, backward
        ctx.product_type = product_type(weights[0])
        return trace.outputs, *after

    @staticmethod
    def backward(ctx: Any, d_outputs: Tensor, d_hidden: Tensor, d_cell: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradients of `gates`, `hidden`, `cell` and the weights, which autograd converts to their types."""
        if torch.is_grad_enabled():  # PyTorch's `once_differentiable` would silently leave out the second derivatives
            raise RuntimeError("this 'kernel' has no second derivatives ('create_graph'): expected 'reference'")
        hidden, cell, outputs, activations, cells, *weights = ctx.saved_tensors
        sizes, dtype, directions = ctx.sizes, ctx.product_type, len(outputs)
        products = [DifferentiableProduct(weights[:directions]), DifferentiableProduct(weights[directions:])]
        projection = products[1] if len(weights) > directions else None
        inputs = LstmInputs(activations, sizes, products[0], projection, LstmState(hidden, cell), ctx.clips)
        gradients = Gradients(
            d_outputs,
            LstmState(d_hidden, d_cell),
            gates=torch.empty_like(activations, dtype=dtype),
            raw=torch.empty_like(outputs, dtype=outputs.dtype if projection is None else dtype),
        )
        d_state = ctx.backward_steps(inputs, Trace(outputs, activations, cells), gradients)
        all_outputs = outputs.split(sizes, dim=1)
        before_each = [_before(all_outputs, hidden, step, active) for step, active in enumerate(sizes)]
        h_before = torch.cat([outputs[:, :0], *before_each], dim=1).to(dtype)  # (R, N, P)
        d_weights = [weight_gradient(*pair) for pair in zip(gradients.gates, h_before, strict=True)]  # (4H, P) each
        if projection is not None:
            cell_outputs = _tanh(cells).mul_(activations[..., -cells.size(2) :]).to(dtype)  # (R, N, H)
            d_weights += [weight_gradient(*pair) for pair in zip(gradients.raw, cell_outputs, strict=True)]  # (P, H)
        return None, None, None, gradients.gates, *d_state, *d_weights


def _prepared(product: Any, sizes: list[int]) -> Any:
    """Return a product or `None` as it is, or in training the fastest product with the same weights."""
    return fastest_product(product.weights, sizes) if isinstance(product, DifferentiableProduct) else product


def _transposed(product: Product, dtype: torch.dtype, sizes: list[int]) -> Product:
    """Return the product with the transposed weights, from (P, 4H) or (H, P)."""
    transposed = [weight.to(dtype).t().contiguous() for weight in product.weights]
    return fastest_product(transposed, sizes)


def _tanh(values: Tensor) -> Tensor:
    """Compute tanh x = 2 σ(2x) − 1."""
    return values.mul(2).sigmoid_().mul_(2).sub_(1)


def _before(values: Sequence[Tensor], start: Tensor, step: int, active: int) -> Tensor:
    """Return the values (R, active, ·) of a step's sentences one step earlier: at the first step, from `start`."""
    return (values[step - 1] if step else start)[:, :active]


def _after(values: Tensor, start: Tensor, sizes: list[int]) -> Tensor:
    """Return the last value of each sentence (R, B, ·). An empty sentence has its value in `start`."""
    steps = list(zip(accumulate(sizes, initial=0), sizes, [*sizes[1:], 0], strict=False))
    # Sentences are sorted by length, the longest first, so the last step has the first rows.
    rows = [begin + row for begin, active, remaining in reversed(steps) for row in range(remaining, active)]
    last = values[:, torch.tensor(rows, dtype=torch.long, device=values.device)]  # (R, sentences that are not empty, ·)
    return last if len(rows) == start.size(1) else torch.cat([last, start[:, len(rows) :]], dim=1)


def _stop_at_clip(gradient: Tensor, clipped: Tensor, bound: Optional[float]) -> None:
    """Set a gradient to zero, in place, where the clipped value is at its bound."""
    if bound is not None:
        gradient.masked_fill_(clipped.abs() >= bound, 0.0)
