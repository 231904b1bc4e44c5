"""The arguments and results of every kernel."""

from typing import NamedTuple, Optional, Protocol

from torch import Tensor


class LstmWeights(NamedTuple):
    """The weights of one LSTMP. The gates are in torch's order: i, f, g, o.

    *Shape:* input (4H, I) · recurrent (4H, P) · bias (4H,) · projection (P, H), or `None` if P = H.
    """

    input: Tensor
    recurrent: Tensor
    bias: Tensor
    projection: Optional[Tensor]


class LstmState(NamedTuple):
    """The state of an LSTMP: `hidden` is its clipped, projected output, and `cell` is its clipped cell.

    *Shape:* hidden (B, P) · cell (B, H); for a whole biLM (n_layers, 2, B, P) · (n_layers, 2, B, H).
    """

    hidden: Tensor
    cell: Tensor


class LstmClips(NamedTuple):
    """Bounds on the absolute values of the cell and of the projected output; `None` for no bound."""

    cell: Optional[float] = None
    projection: Optional[float] = None


class Kernel(Protocol):
    """The recurrence over packed sentences. Each step reads one token of every sentence that has not ended yet."""

    def __call__(
        self,
        gates: Tensor,
        sizes: list[int],
        recurrent: Tensor,
        projection: Optional[Tensor],
        state: LstmState,
        clips: LstmClips,
    ) -> tuple[Tensor, LstmState]:
        """Compute the outputs of N tokens and the state after each of B sentences.

        # Parameters

        gates : `Tensor` (N, 4H)
            W x + b of the tokens, packed (see `Packing`): N is the sum of `sizes`.
        sizes : `list[int]`
            The number of sentences that each step reads: the first rows of the batch, never more than the step before.
        recurrent, projection : `Tensor` (4H, P) and (P, H)
            The matrix products have the number type of `recurrent`, or of autocast.
        state : `LstmState` (B, P) and (B, H)
            The state before the first token. B may exceed `sizes[0]`: an empty sentence keeps its state.
        clips : `LstmClips`

        # Returns

        outputs : `Tensor` (N, P)
        state : `LstmState` (B, P) and (B, H)
            The state after the last token of each sentence.
        """
