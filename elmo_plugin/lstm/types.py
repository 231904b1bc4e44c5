"""The arguments and results of every kernel, and the order in which it reads the tokens of a batch.

The tensors of a kernel have a first dimension R: the directions that are read together, forward before backward. All
directions of a batch have the same sentence lengths, so one loop over the time steps serves them.
"""

from collections.abc import Sequence
from typing import NamedTuple, Optional, Protocol

import torch
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

    *Shape:* hidden (R, B, P) · cell (R, B, H); for a whole biLM (n_layers, 2, B, P) · (n_layers, 2, B, H).
    """

    hidden: Tensor
    cell: Tensor


class LstmClips(NamedTuple):
    """Bounds on the absolute values of the cell and of the projected output; `None` for no bound."""

    cell: Optional[float] = None
    projection: Optional[float] = None


class Product(Protocol):
    """Multiplies the rows of each direction by the weight of that direction."""

    weights: Sequence[Tensor]
    """The weight of each direction, (O, I)."""

    def __call__(self, values: Tensor, start: Optional[Tensor] = None, out: Optional[Tensor] = None) -> Tensor:
        """Return start + x Wᵀ: values (R, N, I) to (R, N, O), written to `out` if that is given."""

    def only(self, direction: int) -> "Product":
        """Return the product of one direction, R = 1."""


class StepOrder(NamedTuple):
    """Left-aligned sentences in step order, for both directions.

    Tokens are sorted by step, and within a step the longest sentence comes first, as in torch's `PackedSequence`.
    Unlike there, sentences may be empty.

    # Parameters

    order : `Tensor` (B,)
        The sentences, the longest first.
    inverse : `Tensor` (B,)
        The position of each sentence in `order`.
    sizes : `list[int]`
        The number of sentences that each step reads.
    positions : `Tensor` (2, N)
        The row of each token in the padded batch, flattened to (B·T, ·), as the forward direction and as the backward
        direction reads it.
    """

    order: Tensor
    inverse: Tensor
    sizes: list[int]
    positions: Tensor

    @classmethod
    def of(
        cls, lengths: Tensor, steps: int, device: Optional[torch.device] = None, reads_last: bool = True
    ) -> "StepOrder":
        """Order sentences of these lengths (B,) in a batch of `steps` columns, with tensors on `device`.

        Without `reads_last`, each direction leaves out the token that it would read last.
        It is computed on the CPU, so that a GPU has to be waited for at most once.
        """
        device, lengths = device or lengths.device, lengths.cpu()
        order = lengths.argsort(descending=True, stable=True)  # (B,)
        sorted_lengths = lengths[order]  # (B,)
        step = torch.arange(steps).unsqueeze(1)  # (T, 1)
        active = step < sorted_lengths - (0 if reads_last else 1)  # (T, B)
        sizes = list(filter(None, active.sum(dim=1).tolist()))
        start = order * steps  # (B,)
        both = torch.stack([start + step, start + sorted_lengths - 1 - step])  # (2, T, B)
        return cls(
            order.to(device, non_blocking=True),
            order.argsort().to(device, non_blocking=True),
            sizes,
            both[:, active].to(device, non_blocking=True),
        )


class LstmInputs(NamedTuple):
    """Everything that the recurrence of a layer is computed from. A batch has N tokens and B sentences.

    # Parameters

    gates : `Tensor` (R, N, 4H)
        W x + b of the tokens in step order (see `StepOrder`): N is the sum of `sizes`.
    sizes : `list[int]`
        The number of sentences that each step reads: the first rows of the batch, never more than the step before.
    recurrent, projection : `Product`
        The products with R (4H, P) and W (P, H). With gradients they are differentiable.
    state : `LstmState` (R, B, P) and (R, B, H)
        The state before the first token. B may exceed `sizes[0]`: an empty sentence keeps its state.
    clips : `LstmClips`
    """

    gates: Tensor
    sizes: list[int]
    recurrent: Product
    projection: Optional[Product]
    state: LstmState
    clips: LstmClips

    def only(self, direction: int) -> "LstmInputs":
        """Return the part of one direction, R = 1."""
        some = slice(direction, direction + 1)
        return self._replace(
            gates=self.gates[some],
            recurrent=self.recurrent.only(direction),
            projection=None if self.projection is None else self.projection.only(direction),
            state=LstmState(self.state.hidden[some], self.state.cell[some]),
        )


class Kernel(Protocol):
    """The recurrence over sentences in step order. A step reads one token of each sentence that has not ended yet.

    A kernel of your own is a function, and an entry of `KERNELS`. What it cannot compute is a `ValueError`. See
    docs/extend.md.
    """

    def __call__(self, inputs: LstmInputs) -> tuple[Tensor, LstmState]:
        """Return the outputs of the tokens (R, N, P), and the state after the last token of each sentence."""
