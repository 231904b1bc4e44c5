"""Sentences to batches of like length, as many together as a number of tokens allows."""

from collections.abc import Iterator, Sequence
from typing import Optional

BOUNDARIES = 2
"""`<S>` and `</S>`, which the biLM adds to a sentence."""
TOKENS_PER_BATCH = 4096
"""The layers of such a batch take 50 MB at the original size."""


def length_batches(
    lengths: Sequence[int], tokens_per_batch: int = TOKENS_PER_BATCH, batch_size: Optional[int] = None
) -> Iterator[list[int]]:
    """The places of sentences of these lengths, by rising length, in batches.

    Of B sentences, the longest with T tokens, B (T + 2) is at most `tokens_per_batch` and B at most `batch_size`; a
    sentence that is longer than that is a batch of its own.
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        too_many = (len(batch) + 1) * (lengths[place] + BOUNDARIES) > tokens_per_batch or len(batch) == batch_size
        if batch and too_many:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
