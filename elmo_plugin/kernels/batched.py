"""Plain torch, arranged for speed: one product for all inputs, and a batch that shrinks as sentences end."""

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from elmo_plugin.kernels.inference import infer
from elmo_plugin.kernels.linear import linear
from elmo_plugin.kernels.recurrence import PackedRecurrence
from elmo_plugin.kernels.signature import Inputs, LstmClips, LstmState, LstmWeights, TokenTable, dense


def batched(
    inputs: Inputs, lengths: Tensor, weights: LstmWeights, state: LstmState, clips: LstmClips
) -> tuple[Tensor, LstmState]:
    """The same as `reference`, computing only the tokens that are there; see `Kernel` for shapes.

    Where weights are of lower precision than float32, so are the matrix products alone; states and outputs are float32.
    """
    nonempty = lengths > 0  # (B,)
    if not len(lengths) or not bool(nonempty.all()):
        return _skip_empty(inputs, lengths, nonempty, weights, state, clips)
    each_token = inputs.where if isinstance(inputs, TokenTable) else inputs  # (B, T, ·)
    packed = pack_padded_sequence(each_token, lengths.cpu(), batch_first=True, enforce_sorted=False)
    order, back = packed.sorted_indices, packed.unsorted_indices  # (B,), longest sentence first
    tokens = TokenTable(inputs.vectors, packed.data) if isinstance(inputs, TokenTable) else packed.data  # N
    dtype = torch.promote_types(state.cell.dtype, torch.float32)
    start = LstmState(state.hidden[order].to(dtype), state.cell[order].to(dtype))
    run = _differentiate if torch.is_grad_enabled() else infer
    outputs, final = run(tokens, packed.batch_sizes.tolist(), weights, start, clips)  # (N, P)
    padded, _ = pad_packed_sequence(
        PackedSequence(outputs, packed.batch_sizes, order, back), batch_first=True, total_length=each_token.size(1)
    )  # (B, T, P)
    return padded, LstmState(final.hidden[back], final.cell[back])


def _differentiate(
    inputs: Inputs, sizes: list[int], weights: LstmWeights, state: LstmState, clips: LstmClips
) -> tuple[Tensor, LstmState]:
    """As `infer`, with what a backward pass needs."""
    gates = linear(dense(inputs).to(weights.input.dtype), weights.input, weights.bias)  # (N, 4H)
    outputs, hidden, cell = PackedRecurrence.apply(gates, weights.recurrent, weights.projection, *state, sizes, clips)
    return outputs, LstmState(hidden, cell)


def _skip_empty(
    inputs: Inputs, lengths: Tensor, nonempty: Tensor, weights: LstmWeights, state: LstmState, clips: LstmClips
) -> tuple[Tensor, LstmState]:
    """Packed sequences hold no empty sentence: run the others, and give the empty ones zeros and their own state."""
    steps = (inputs.where if isinstance(inputs, TokenTable) else inputs).size(1)
    outputs = state.hidden.new_zeros(len(lengths), steps, state.hidden.size(-1))  # (B, T, P)
    if not bool(nonempty.any()):
        return outputs, state
    rows = nonempty.nonzero().squeeze(-1)  # (non-empty sentences,)
    live = TokenTable(inputs.vectors, inputs.where[rows]) if isinstance(inputs, TokenTable) else inputs[rows]
    some = LstmState(state.hidden[rows], state.cell[rows])
    some_outputs, some_final = batched(live, lengths[rows], weights, some, clips)
    final = LstmState(
        state.hidden.to(some_final.hidden).index_copy(0, rows, some_final.hidden),
        state.cell.to(some_final.cell).index_copy(0, rows, some_final.cell),
    )
    return outputs.to(some_outputs).index_copy(0, rows, some_outputs), final
