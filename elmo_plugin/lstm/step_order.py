"""The order in which a recurrence reads the tokens of a batch: step by step, without padding."""

from typing import NamedTuple, Optional

import torch
from torch import Tensor


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
        sizes = [size for size in active.sum(dim=1).tolist() if size]
        start = order * steps  # (B,)
        both = torch.stack([start + step, start + sorted_lengths - 1 - step])  # (2, T, B)
        inverse, positions = (
            order.argsort().to(device, non_blocking=True),
            both[:, active].to(device, non_blocking=True),
        )
        return cls(order.to(device, non_blocking=True), inverse, sizes, positions)
