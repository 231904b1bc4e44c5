"""The values that every kernel takes and returns."""

from typing import NamedTuple, Optional, Protocol, Union

from torch import Tensor


class LstmWeights(NamedTuple):
    """Weights of one LSTMP, gates in torch's order i, f, g, o.

    *Shape:* input (4H, I) · recurrent (4H, P) · bias (4H,) · projection (P, H), or `None` where P = H.
    """

    input: Tensor
    recurrent: Tensor
    bias: Tensor
    projection: Optional[Tensor]


class LstmState(NamedTuple):
    """What an LSTMP remembers: `hidden`, its clipped projected output, and `cell`, its clipped memory.

    *Shape:* hidden (B, P) · cell (B, H); of a whole biLM (n_layers, 2, B, P) · (n_layers, 2, B, H).
    """

    hidden: Tensor
    cell: Tensor


class LstmClips(NamedTuple):
    """Bounds on the absolute values of the cell and of the projected output; `None` for no bound."""

    cell: Optional[float] = None
    projection: Optional[float] = None


class TokenTable(NamedTuple):
    """Vectors of distinct words, and which of them each token is: what repeats need not be computed twice.

    *Shape:* vectors (M, I) · where (B, T).
    """

    vectors: Tensor
    where: Tensor

    def dense(self) -> Tensor:
        """The vector of each token, (B, T, I)."""
        return self.vectors[self.where]


Inputs = Union[Tensor, TokenTable]


def dense(inputs: Inputs) -> Tensor:
    """Inputs in either form as (B, T, I)."""
    return inputs.dense() if isinstance(inputs, TokenTable) else inputs


class Kernel(Protocol):
    """The recurrence over left-aligned sequences, forward in time."""

    def __call__(
        self, inputs: Inputs, lengths: Tensor, weights: LstmWeights, state: LstmState, clips: LstmClips
    ) -> tuple[Tensor, LstmState]:
        """Run it.

        # Parameters

        inputs : `Tensor` (B, T, I), or a `TokenTable`
        lengths : `Tensor` (B,)
            Tokens of each sentence, 0 to T; what lies beyond is not read.
        weights, state, clips
            `state` is the one before the first token.

        # Returns

        outputs : `Tensor` (B, T, P)
            Zero beyond a sentence's length.
        state : `LstmState`
            The state after each sentence's last token; the initial one for an empty sentence.
        """
