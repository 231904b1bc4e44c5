"""Convert words to the ids that a biLM reads and predicts."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from allennlp.data import TextFieldTensors, Vocabulary
from torch import Tensor

from elmo_plugin.text import word_to_ids

NAMESPACE = "tokens"
CACHED_WORDS = 2**18
"""The number of words whose character ids are cached. They take about 75 MB."""
MAX_CHARACTERS = 50
"""As in `elmo_characters`. The biLM fits the ids to its own width."""


class WordIds:
    """Looks words up in a biLM's vocabulary, and converts them to bilm-tf's character ids.

    A literal `<S>` or `</S>` in a text is a sentence boundary, as in bilm-tf. A literal `<UNK>` is the unknown word.

    # Parameters

    vocab : `Vocabulary`
        Its namespace `tokens` has bilm-tf's order: `<S>` is 1, `</S>` is 2, the unknown word is 3.
    """

    def __init__(self, vocab: Vocabulary) -> None:
        self._index = vocab.get_token_to_index_vocabulary(NAMESPACE)
        self._unknown = vocab.get_token_index(vocab._oov_token, NAMESPACE)
        self._character_ids = lru_cache(CACHED_WORDS)(_character_ids)

    def of_sentences(self, sentences: Sequence[Sequence[str]]) -> TextFieldTensors:
        """Return the ids (B, T, C) and (B, T) of B sentences, in the form of a batch of `text_shards` instances."""
        width = max(map(len, sentences), default=0)  # T
        characters, words = self.characters(sentences, width), self.words(sentences, width)  # (B, T, C), (B, T)
        return {"characters": {"elmo_tokens": characters}, "words": {"tokens": words}}

    def words(self, rows: Sequence[Sequence[str]], width: int) -> Tensor:
        """Return the vocabulary ids (B, T) of B rows of at most T = `width` words, padded with 0."""
        ids = torch.zeros(len(rows), width, dtype=torch.long)  # (B, T)
        for target, row in zip(ids, rows, strict=True):
            # `or`: the padding token of AllenNLP has id 0, but in a text it is an unknown word.
            known = [self._index.get(word) or self._unknown for word in row]
            target[: len(row)] = torch.tensor(known, dtype=torch.long)
        return ids

    def characters(self, rows: Sequence[Sequence[str]], width: int) -> Tensor:
        """Return the character ids (B, T, C) of B rows of at most T = `width` words, padded with 0."""
        ids = np.zeros((len(rows), width, MAX_CHARACTERS), dtype=np.int64)  # (B, T, C)
        for target, row in zip(ids, rows, strict=True):
            if row:
                of_words = b"".join(map(self._character_ids, row))
                target[: len(row)] = np.frombuffer(of_words, np.int16).reshape(len(row), MAX_CHARACTERS)
        return torch.from_numpy(ids)


def _character_ids(word: str) -> bytes:
    """Return 16-bit ids (C,) as bytes: cached small arrays would fragment the memory that batches are allocated in."""
    return np.array(word_to_ids(word, MAX_CHARACTERS), dtype=np.int16).tobytes()
