"""Batches of sentences of similar length, each as large as a token budget allows."""

from collections.abc import Iterator, Sequence
from typing import Optional

BOUNDARIES = 2
"""The biLM adds `<S>` and `</S>` to each sentence."""
TOKENS_PER_BATCH = 4096
"""At the original size the layers of such a batch take 50 MB."""


def length_batches(
    lengths: Sequence[int],
    tokens_per_batch: int = TOKENS_PER_BATCH,
    batch_size: Optional[int] = None,
    boundaries: int = BOUNDARIES,
) -> Iterator[list[int]]:
    """Yield batches of sentences of similar length, shortest first: the indices of each batch's sentences.

    A batch of B sentences, the longest with T tokens, has B (T + `boundaries`) ≤ `tokens_per_batch` and
    B ≤ `batch_size`. A sentence longer than that is a batch by itself.
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
