"""For GPUs: all layers and directions side by side, so that T tokens through n layers take T + n − 1 rounds.

    round        0      1      2      3         Layer k reads token t in round t + k: the layer below gave it out one
    layer 0     t=0    t=1    t=2     ·         round before. All cells of a round, (layer, direction), are one batched
    layer 1      ·     t=0    t=1    t=2        product of [x, h] and one of projections, with one Triton kernel after
                                                each. Cells that have not begun, or are done, take no part in products.

As in `fused_recurrence`, no sentence leaves the batch and the loop asks the device for nothing. Not timed yet.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import dropout

from elmo_plugin.kernels.fused import (
    cell_backward,
    cell_forward,
    check_device,
    launch,
    stack_output_backward,
    stack_output_forward,
)
from elmo_plugin.kernels.fused_recurrence import output_clip
from elmo_plugin.kernels.products import product_type
from elmo_plugin.kernels.signature import LstmState, dense
from elmo_plugin.kernels.stack import Stack, StackOptions, StackOutput


def pipelined(stacks: Sequence[Stack], options: StackOptions) -> list[StackOutput]:
    """The same as `LayerByLayer(reference)`; see `StackKernel`.

    Weights are stacked at each call, a copy of them all. Their type, or autocast's, is that of matrix products; states
    and outputs are float32, or float64. In shapes W is the number of stacks. Raises `ValueError` on a CPU, unless
    Triton's interpreter runs there, and for inputs that are not as wide as outputs.
    """
    inputs = torch.stack([dense(stack.inputs) for stack in stacks]).permute(2, 0, 1, 3)  # (T, W, B, P)
    lengths = torch.stack([stack.lengths for stack in stacks])  # (W, B)
    hidden, cell = _join_states(stacks)  # (n_layers, W, B, P), (n_layers, W, B, H)
    check_device(inputs.device, "pipelined")
    _check_width(inputs, hidden)
    steps = torch.arange(len(inputs), device=lengths.device).view(-1, 1, 1)  # (T, 1, 1)
    ended = (steps >= lengths).unsqueeze(-1)  # (T, W, B, 1)
    read = dropout(inputs.masked_fill(ended, 0.0), options.dropout)  # (T, W, B, P)
    plan = _plan(len(read), lengths, hidden, options)
    hiddens, last_cell = PipelinedRecurrence.apply(plan, read, hidden, cell, *_join_weights(stacks))
    by_step = torch.stack([hiddens[k : k + len(read) + 1, k] for k in range(len(hidden))])  # (n_layers, T + 1, W, B, P)
    last_hidden = by_step.gather(1, lengths.view(1, 1, *lengths.shape, 1).expand_as(by_step[:, :1])).squeeze(1)
    layers = _add_inputs(by_step[:, 1:].masked_fill(ended, 0.0), plan)  # n_layers of (T, W, B, P)
    return [
        StackOutput(
            [layer[:, one].transpose(0, 1) for layer in layers], LstmState(last_hidden[:, one], last_cell[:, one])
        )
        for one in range(len(stacks))
    ]


class Plan(NamedTuple):
    """Who does what when, and all else that has no gradient.

    *Shape:* lengths (n_layers, W, B) · drops (rounds + n_layers, cells, B, P), the factors of dropout of what is read
    above each cell, or `None`.
    """

    steps: int
    lengths: Tensor
    drops: Optional[Tensor]
    options: StackOptions
    keep: bool
    """Whether there will be a backward pass."""

    @property
    def rounds(self) -> int:
        """T + n_layers − 1."""
        return self.steps + len(self.lengths) - 1

    @property
    def summed(self) -> int:
        """How many layers, at most, the input of one is the sum of."""
        return len(self.lengths) if self.options.residual else 1

    def active(self, r: int) -> slice:
        """The cells that have a token in round r."""
        n_layers, n_stacks, _ = self.lengths.shape
        return slice(max(0, r - self.steps + 1) * n_stacks, min(r + 1, n_layers) * n_stacks)


class PipelinedRecurrence(torch.autograd.Function):
    """The rounds of a pipeline over W stacks; the equations of a cell are those of `PackedRecurrence`.

    Cells are in order of layers, each layer's directions beside each other.

    # Parameters

    plan : `Plan`
    inputs : `Tensor` (T, W, B, P)
        What the first layers read. Any finite number where there is no token.
    hidden, cell : `Tensor` (n_layers, W, B, P) and (n_layers, W, B, H)
        The state before the first token.
    weights : `Tensor` (cells, 4H, 2P)
        For [x, h], in the type of all matrix products.
    bias, projection : `Tensor` (cells, 4H) and (cells, P, H)
    """

    @staticmethod
    def forward(
        ctx: Any,
        plan: Plan,
        inputs: Tensor,
        hidden: Tensor,
        cell: Tensor,
        weights: Tensor,
        bias: Tensor,
        projection: Optional[Tensor],
    ) -> tuple[Tensor, Tensor]:
        """Hidden (rounds + 1, n_layers, W, B, P) before and after each round, and the last cell (n_layers, W, B, H).

        A layer's hidden stands still until it begins, and is arbitrary where a sentence has ended.
        """
        clips, clip = plan.options.clips, output_clip(projection, plan.options.clips)
        hiddens = hidden.expand(plan.rounds + 1, *hidden.shape).clone()  # (rounds + 1, n_layers, W, B, P)
        read = _room_to_read(plan, inputs, hidden, weights.dtype)  # (rounds + 1, cells, B, 2P)
        cells = cell.expand(plan.rounds + 1 if plan.keep else 1, *cell.shape).clone()  # (rounds + 1, n_layers, W, B, H)
        gates = read.new_zeros(*read.shape[1:-1], bias.size(1))  # (cells, B, 4H)
        biases = bias.unsqueeze(1).expand_as(gates).contiguous()  # (cells, B, 4H)
        activations = cell.new_empty(plan.rounds, *gates.shape) if plan.keep else None  # (rounds, cells, B, 4H)
        emitted = cell.flatten(0, 1).to(cell.dtype if projection is None else weights.dtype, copy=True)  # (cells, B, H)
        raw = emitted if projection is None else emitted.new_zeros(hidden.flatten(0, 1).shape)  # (cells, B, P)
        of_cells, of_outputs = cell.flatten(1, 2), hidden.flatten(1, 2)  # (n_layers, WB, ·), for their sizes
        with torch.cuda.device_of(inputs):
            for r in range(plan.rounds):
                now = plan.active(r)
                torch.bmm(read[r, now], weights[now].mT, out=gates[now])
                kept = (activations, cells, emitted)
                launch(cell_forward, of_cells, r, clips.cell, biases, 0, gates, plan.lengths, *kept)
                if projection is not None:
                    torch.bmm(emitted[now], projection[now].mT, out=raw[now])
                moved = (raw, plan.drops, hiddens, read)
                launch(stack_output_forward, of_outputs, r, clip, *moved, SUMMED=plan.summed)
        if plan.keep:
            ctx.save_for_backward(inputs, weights, projection, read, activations, cells, hiddens)
        ctx.plan = plan
        return hiddens, cells[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_hiddens: Tensor, d_cell: Tensor) -> tuple[Optional[Tensor], ...]:
        """Gradients of `inputs`, `hidden`, `cell` and the weights, given those of what came out."""
        inputs, weights, projection, read, activations, cells, hiddens = ctx.saved_tensors
        plan, clips, clip = ctx.plan, ctx.plan.options.clips, output_clip(projection, ctx.plan.options.clips)
        d_hiddens, d_cell = d_hiddens.contiguous(), d_cell.clone(memory_format=torch.contiguous_format)
        d_gates = torch.empty_like(activations, dtype=weights.dtype)  # (rounds, cells, B, 4H)
        dtype = cells.dtype if projection is None else weights.dtype
        d_raw = torch.empty_like(hiddens[1:].flatten(1, 2), dtype=dtype)  # (rounds, cells, B, P)
        d_read = read.new_zeros(
            plan.rounds + len(d_cell) + 1, *read.shape[1:]
        )  # (…, cells, B, 2P), zeros after the end
        d_emitted = torch.zeros_like(d_cell.flatten(0, 1), dtype=dtype)  # (cells, B, H)
        of_cells, of_outputs = d_cell.flatten(1, 2), d_hiddens[0].flatten(1, 2)  # (n_layers, WB, ·), for their sizes
        with torch.cuda.device_of(d_gates):
            for r in reversed(range(plan.rounds)):
                now = plan.active(r)
                moved = (hiddens, d_hiddens, plan.drops, d_read, d_raw)
                launch(stack_output_backward, of_outputs, r, clip, *moved, SUMMED=plan.summed)
                if projection is not None:
                    torch.bmm(d_raw[r, now], projection[now], out=d_emitted[now])
                d_h = d_raw[r] if projection is None else d_emitted  # (cells, B, H)
                launch(cell_backward, of_cells, r, clips.cell, activations, cells, plan.lengths, d_h, d_cell, d_gates)
                torch.bmm(d_gates[r, now], weights[now], out=d_read[r, now])
        d_weights = _sum_over_rounds(d_gates, read[:-1])  # (cells, 4H, 2P)
        d_bias = d_gates.sum(dim=(0, 2), dtype=cells.dtype)  # (cells, 4H)
        d_projection = None
        if projection is not None:
            emitted = activations[..., -cells.size(-1) :] * cells[1:].flatten(1, 2).tanh()  # (rounds, cells, B, H)
            d_projection = _sum_over_rounds(d_raw, emitted.to(dtype))  # (cells, P, H)
        d_x, d_h = d_read.unflatten(1, d_cell.shape[:2]).chunk(2, dim=-1)  # (…, n_layers, W, B, P) each
        d_hidden = torch.stack([d_h[k, k] + d_hiddens[k, k] for k in range(len(d_cell))])  # (n_layers, W, B, P)
        return None, d_x[: plan.steps, 0].to(inputs.dtype), d_hidden, d_cell, d_weights, d_bias, d_projection


def _plan(steps: int, lengths: Tensor, hidden: Tensor, options: StackOptions) -> Plan:
    """For lengths (W, B) and hidden (n_layers, W, B, P)."""
    n_layers = len(hidden)
    drops = None
    if options.dropout > 0 and n_layers > 1:
        drops = dropout(hidden.new_ones(steps + 2 * n_layers - 1, *hidden.flatten(0, 1).shape), options.dropout)
    counts = lengths.expand(n_layers, -1, -1).contiguous()  # (n_layers, W, B)
    return Plan(steps, counts, drops, options, torch.is_grad_enabled())


def _add_inputs(outputs: Tensor, plan: Plan) -> list[Tensor]:
    """Of all layers' own outputs (n_layers, T, W, B, P) those of a stack: with what each but the first has read."""
    if not plan.options.residual:
        return list(outputs)
    layers = [outputs[0]]  # (T, W, B, P)
    for below, output in enumerate(outputs[1:]):
        read = layers[-1]  # (T, W, B, P)
        if plan.drops is not None:
            read = read * plan.drops[below : below + plan.steps].unflatten(1, plan.lengths.shape[:2])[:, below]
        layers.append(output + read)
    return layers


def _join_states(stacks: Sequence[Stack]) -> LstmState:
    """Of W stacks (n_layers, B, ·) to (n_layers, W, B, ·), in float32 at least."""
    hidden, cell = (torch.stack(parts, dim=1) for parts in zip(*(stack.state for stack in stacks), strict=True))
    dtype = torch.promote_types(cell.dtype, torch.float32)
    return LstmState(hidden.to(dtype), cell.to(dtype))


def _join_weights(stacks: Sequence[Stack]) -> tuple[Tensor, Tensor, Optional[Tensor]]:
    """The weights of all cells, (cells, 4H, I + P), (cells, 4H) and (cells, P, H), the last `None` where P = H."""
    cells = [weights for layer in zip(*(stack.weights for stack in stacks), strict=True) for weights in layer]
    dtype = product_type(cells[0].input)
    stacked = torch.stack([torch.cat([weights.input, weights.recurrent], dim=1) for weights in cells])
    bias = torch.stack([weights.bias for weights in cells])
    projections = [weights.projection for weights in cells if weights.projection is not None]
    return stacked.to(dtype), bias, torch.stack(projections).to(dtype) if projections else None


def _check_width(inputs: Tensor, hidden: Tensor) -> None:
    """Inputs (…, I) and hidden (…, P) are to be of one width, as all cells are one batched product."""
    if inputs.size(-1) != hidden.size(-1):
        raise ValueError(
            f"kernel 'pipelined' wants inputs as wide as the outputs, {hidden.size(-1)}; found {inputs.size(-1)}"
        )


def _room_to_read(plan: Plan, inputs: Tensor, hidden: Tensor, dtype: torch.dtype) -> Tensor:
    """[x, h] of each round, (rounds + 1, cells, B, 2P): the first layers' x of all rounds, and h of the first round."""
    width = hidden.size(-1)
    read = hidden.new_zeros(plan.rounds + 1, *hidden.shape[:-1], 2 * width, dtype=dtype)  # (…, n_layers, W, B, 2P)
    read[: plan.steps, 0, ..., :width] = inputs
    read[0, ..., width:] = hidden
    return read.flatten(1, 2)


def _sum_over_rounds(gradients: Tensor, values: Tensor) -> Tensor:
    """The gradient of each cell's weight: (rounds, cells, B, M) and (rounds, cells, B, N) to (cells, M, N)."""
    return torch.einsum("rcbm,rcbn->cmn", gradients, values)
