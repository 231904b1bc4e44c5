"""Packed sentences: the tokens of a batch without padding, in the order in which the recurrence reads them."""

from typing import NamedTuple

import torch
from torch import Tensor


class Packing(NamedTuple):
    """The order of the tokens when a batch of left-aligned sentences is packed.

    Packed tokens are sorted by step, and within a step the longest sentence comes first, as in torch's
    `PackedSequence`. Unlike there, sentences may be empty.

    # Parameters

    order : `Tensor` (B,)
        The sentences, the longest first.
    sizes : `list[int]`
        The number of sentences that each step reads.
    positions : `Tensor` (N,)
        The row of each packed token in the padded batch, flattened to (B·T, ·).
    """

    order: Tensor
    sizes: list[int]
    positions: Tensor

    @classmethod
    def both_directions(cls, lengths: Tensor, steps: int) -> tuple["Packing", "Packing"]:
        """Pack sentences of these lengths (B,) in a batch of `steps` columns, forward and backward."""
        order = lengths.argsort(descending=True, stable=True)  # (B,)
        step = torch.arange(steps, device=lengths.device).unsqueeze(1)  # (T, 1)
        active = step < lengths[order]  # (T, B)
        sizes = [size for size in active.sum(dim=1).tolist() if size]
        start = order * steps  # (B,)
        forward, backward = start + step, start + lengths[order] - 1 - step  # (T, B) each
        return cls(order, sizes, forward[active]), cls(order, sizes, backward[active])

    def unpack(self, values: Tensor, steps: int) -> Tensor:
        """Put packed values (N, ·) back into their batch (B, T, ·), with zeros for padding."""
        batch = values.new_zeros(len(self.order) * steps, values.size(1))
        return batch.index_put((self.positions,), values).view(len(self.order), steps, values.size(1))

    def unsort(self, rows: Tensor) -> Tensor:
        """Put rows (B, ·), the longest sentence first, back into the order of the batch."""
        return torch.empty_like(rows).index_put((self.order,), rows)
