"""Converts words to the ids that a biLM reads and predicts."""

from collections.abc import Sequence

import numpy as np
import torch
from allennlp.data import TextFieldTensors, Vocabulary
from numpy.typing import NDArray
from torch import Tensor

from elmo_plugin.text import word_to_ids

NAMESPACE = "tokens"
CACHED_WORDS = 2**18
"""Words whose character ids are cached; they take about 60 MB."""
MAX_CHARACTERS = 50
"""As in `elmo_characters`; the biLM fits the ids to its own width."""


class WordIds:
    """Looks words up in a biLM's vocabulary, and converts them to bilm-tf's character ids.

    A literal `<S>` or `</S>` in a text is that boundary, as in bilm-tf. A literal `<UNK>` is the unknown word.

    # Parameters

    vocab : `Vocabulary`
        Its namespace `tokens` has bilm-tf's order: `<S>` is 1, `</S>` is 2, the unknown word is 3.
    """

    def __init__(self, vocab: Vocabulary) -> None:
        self._index = vocab.get_token_to_index_vocabulary(NAMESPACE)
        self._unknown = vocab.get_token_index(vocab._oov_token, NAMESPACE)
        self._numbers: dict[str, int] = {}
        self._table = np.zeros((0, MAX_CHARACTERS), dtype=np.int16)  # row n: the character ids of word n; 0: padding

    def of_sentences(self, sentences: Sequence[Sequence[str]]) -> TextFieldTensors:
        """Return B sentences as AllenNLP's loaders give those of `text_shards`: ids (B, T, C) and (B, T)."""
        width = max(map(len, sentences), default=0)  # T
        characters, words = self.characters(sentences, width), self.words(sentences, width)  # (B, T, C), (B, T)
        return {"characters": {"elmo_tokens": characters}, "words": {"tokens": words}}

    def words(self, rows: Sequence[Sequence[str]], width: int) -> Tensor:
        """Return vocabulary ids (B, T) of B rows of at most T = `width` words, padded with 0."""
        # `or`: AllenNLP's padding token has id 0, and is an unknown word in a text.
        known = [self._index.get(word) or self._unknown for row in rows for word in row]
        return torch.from_numpy(_padded(known, rows, width))

    def characters(self, rows: Sequence[Sequence[str]], width: int) -> Tensor:
        """Return character ids (B, T, C) of B rows of at most T = `width` words, padded with 0."""
        self._add({word for row in rows for word in row})
        numbers = _padded([self._numbers[word] for row in rows for word in row], rows, width)  # (B, T)
        return torch.from_numpy(self._table[numbers].astype(np.int64))

    def _add(self, words: set[str]) -> None:
        """Add words to the table, which is emptied when it is full."""
        new = words - self._numbers.keys()
        if 1 + len(self._numbers) + len(new) > len(self._table):
            self._numbers, new = {}, words
            self._table = np.zeros((max(CACHED_WORDS, 1 + len(words)), MAX_CHARACTERS), dtype=np.int16)
        for number, word in enumerate(new, 1 + len(self._numbers)):
            self._table[number] = word_to_ids(word, MAX_CHARACTERS)
            self._numbers[word] = number


def _padded(numbers: list[int], rows: Sequence[Sequence[str]], width: int) -> NDArray[np.int64]:
    """Return the numbers of all words, in the order of the rows, as (B, T), padded with 0."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)[:, np.newaxis]  # (B, 1)
    padded = np.zeros((len(rows), width), dtype=np.int64)
    padded[np.arange(width) < lengths] = numbers
    return padded
