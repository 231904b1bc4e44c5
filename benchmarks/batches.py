"""Sentences to batches: by length, so many sentences or so many tokens at a time."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.text import Sentences
from elmo_plugin.text import batch_to_ids

BOUNDARIES = 2
"""`<S>` and `</S>`, which the biLM adds."""


class Batching(NamedTuple):
    """How sentences are put together: `limit` sentences a batch, or as many as fit into `limit` padded tokens."""

    limit: int
    unit: str

    def __str__(self) -> str:
        """As a table says it."""
        return f"{self.limit:,} {self.unit}"

    def split(self, sentences: Sentences) -> Iterator[Sentences]:
        """Batches of sentences sorted by length."""
        batch: Sentences = []
        for sentence in sorted(sentences, key=len):
            size = len(batch) + 1
            if batch and (size * (len(sentence) + BOUNDARIES) if self.unit == "tokens" else size) > self.limit:
                yield batch
                batch = []
            batch.append(sentence)
        yield batch


def to_ids(sentences: Sentences, device: torch.device) -> Tensor:
    """Character ids (B, T, C) on the device."""
    return batch_to_ids(sentences).to(device)
