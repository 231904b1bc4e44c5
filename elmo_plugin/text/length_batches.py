"""Batches of sentences of similar length within a token budget, and what a function makes of each."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Optional

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


def by_length(
    function: Callable[[list[Any]], Iterable[Any]],
    items: Sequence[Any],
    lengths: Sequence[int],
    tokens_per_batch: int = TOKENS_PER_BATCH,
    batch_size: Optional[int] = None,
) -> Iterator[tuple[int, Any]]:
    """Yield the index of each item, shortest first, with what the function of a batch of items returns for it.

    >>> dict(by_length(lambda batch: map(str.title, batch), ["they left", "it", "she"], [2, 1, 1]))
    {1: 'It', 2: 'She', 0: 'They Left'}
    """
    for batch in length_batches(lengths, tokens_per_batch, batch_size):
        yield from zip(batch, function([items[index] for index in batch]), strict=True)
