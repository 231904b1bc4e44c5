"""The names of `allennlp.commands.elmo`, which AllenNLP 1.0 took away, for code and tutorials written for them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Optional

import numpy as np
from more_itertools import chunked

from elmo_plugin.bulk_embedding.embedder import load_by_keys
from elmo_plugin.mixes.bilm_source import PUBLISHED_OPTIONS, PUBLISHED_WEIGHTS


class ElmoEmbedder:
    """`allennlp.commands.elmo.ElmoEmbedder` of AllenNLP 0.9: tokens to all layers, the token layer first.

    A sentence has the same vectors each time; the original's depended on what it had embedded before.

    # Parameters

    options_file, weight_file : `str`
        Paths or URLs of a bilm-tf pair; by default those of the published model.
    cuda_device : `int`
        The number of a GPU, −1 for the processor.
    initial_state : `Optional[str]`
        As of `load`; the original had none.
    """

    def __init__(
        self,
        options_file: str = PUBLISHED_OPTIONS,
        weight_file: str = PUBLISHED_WEIGHTS,
        cuda_device: int = -1,
        initial_state: Optional[str] = None,
    ) -> None:
        keys = {"options_file": options_file, "weight_file": weight_file}
        self._embedder = load_by_keys(keys, "all", "float32", cuda_device, initial_state)

    def embed_sentence(self, sentence: Sequence[str]) -> np.ndarray:
        """The tokens of a sentence to (L, T, D)."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Sentences to (L, T, D) each; T is 0 for an empty one."""
        return self._embedder.embed(batch)

    def embed_sentences(self, sentences: Iterable[Sequence[str]], batch_size: int = 64) -> Iterator[np.ndarray]:
        """Sentences to (L, T, D) each, `batch_size` of them read and embedded at a time."""
        for batch in chunked(sentences, batch_size):
            yield from self.embed_batch(batch)
