"""Batches of sentences of similar length within a token budget."""

from collections.abc import Iterator, Sequence
from typing import Optional

BOUNDARIES = 2
"""The biLM adds `<S>` and `</S>` to each sentence."""
TOKENS_PER_BATCH = 4096
"""The default token budget. The layers of such a batch take 50 MB at the original size of the biLM."""


def length_batches(
    lengths: Sequence[int],
    tokens_per_batch: int = TOKENS_PER_BATCH,
    batch_size: Optional[int] = None,
    boundaries: int = BOUNDARIES,
) -> Iterator[list[int]]:
    """Yield batches of sentences of similar length, shortest first, as lists of indices into `lengths`.

    A batch of B sentences with at most T tokens satisfies B (T + `boundaries`) ≤ `tokens_per_batch` and
    B ≤ `batch_size`. A sentence that alone exceeds the budget is a batch by itself.

    >>> list(length_batches([5, 1, 4, 50], tokens_per_batch=14))
    [[1, 2], [0], [3]]
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        too_many = (len(batch) + 1) * (lengths[index] + boundaries) > tokens_per_batch or len(batch) == batch_size
        if batch and too_many:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
