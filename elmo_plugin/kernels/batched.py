"""Plain torch, arranged for speed: one product for all inputs, and a batch that shrinks as sentences end."""

from torch import Tensor
from torch.nn.functional import linear
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from elmo_plugin.kernels.recurrence import PackedRecurrence
from elmo_plugin.kernels.signature import LstmClips, LstmState, LstmWeights


def batched(
    inputs: Tensor, lengths: Tensor, weights: LstmWeights, state: LstmState, clips: LstmClips
) -> tuple[Tensor, LstmState]:
    """The same as `reference`, computing only the tokens that are there; see `Kernel` for shapes."""
    nonempty = lengths > 0  # (B,)
    if not len(lengths) or not bool(nonempty.all()):
        return _skip_empty(inputs, lengths, nonempty, weights, state, clips)
    packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
    order, back = packed.sorted_indices, packed.unsorted_indices  # (B,), longest sentence first
    gates = linear(packed.data, weights.input, weights.bias)  # (N, 4H), N tokens, time step after time step
    outputs, hidden, cell = PackedRecurrence.apply(
        gates,
        weights.recurrent,
        weights.projection,
        state.hidden[order],
        state.cell[order],
        packed.batch_sizes.tolist(),
        clips,
    )  # (N, P), (B, P), (B, H)
    padded, _ = pad_packed_sequence(
        PackedSequence(outputs, packed.batch_sizes, order, back), batch_first=True, total_length=inputs.size(1)
    )  # (B, T, P)
    return padded, LstmState(hidden[back], cell[back])


def _skip_empty(
    inputs: Tensor, lengths: Tensor, nonempty: Tensor, weights: LstmWeights, state: LstmState, clips: LstmClips
) -> tuple[Tensor, LstmState]:
    """Packed sequences hold no empty sentence: run the others, and give the empty ones zeros and their own state."""
    outputs = inputs.new_zeros(*inputs.shape[:2], state.hidden.size(-1))  # (B, T, P)
    if not bool(nonempty.any()):
        return outputs, state
    rows = nonempty.nonzero().squeeze(-1)  # (non-empty sentences,)
    some = LstmState(state.hidden[rows], state.cell[rows])
    some_outputs, some_final = batched(inputs[rows], lengths[rows], weights, some, clips)
    final = LstmState(
        state.hidden.index_copy(0, rows, some_final.hidden), state.cell.index_copy(0, rows, some_final.cell)
    )
    return outputs.index_copy(0, rows, some_outputs), final
