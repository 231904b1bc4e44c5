"""Words to the numbers that a biLM reads and predicts, each word worked out once."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from allennlp.data import TextFieldTensors, Vocabulary
from numpy.typing import NDArray
from torch import Tensor

from elmo_plugin.text import word_to_ids

NAMESPACE = "tokens"
WORDS_REMEMBERED = 2**18
"""Character ids of this many words are kept, some 40 MB."""
MAX_CHARACTERS = 50
"""As `elmo_characters` has them; the biLM fits them to its own width."""


class WordIds:
    """Looks words up in a vocabulary of a biLM, and spells them in bilm-tf's character ids.

    # Parameters

    vocab : `Vocabulary`
        Its namespace `tokens` has bilm-tf's order: `<S>` is 1, `</S>` 2, the unknown word 3.

    A literal `<S>` or `</S>` in a text is that boundary, as in bilm-tf; a literal `<UNK>` is the unknown word.
    """

    def __init__(self, vocab: Vocabulary) -> None:
        self._index = vocab.get_token_to_index_vocabulary(NAMESPACE)
        self._unknown = vocab.get_token_index(vocab._oov_token, NAMESPACE)
        self._spell = lru_cache(WORDS_REMEMBERED)(_spell)

    def of_sentences(self, sentences: Sequence[Sequence[str]]) -> TextFieldTensors:
        """B sentences as `text_shards` and AllenNLP's loaders give them: `characters` (B, T, C), `words` (B, T)."""
        width = max(map(len, sentences), default=0)  # T
        characters, words = self.spell(sentences, width), self.look_up(sentences, width)  # (B, T, C), (B, T)
        return {"characters": {"elmo_tokens": characters}, "words": {"tokens": words}}

    def look_up(self, rows: Sequence[Sequence[str]], width: int) -> Tensor:
        """Vocabulary ids (B, T) of B rows of at most T = `width` words, 0 beyond a row's end.

        AllenNLP's name of the padding, id 0 in its vocabulary, is unknown where a text has it for a word.
        """
        ids = torch.zeros(len(rows), width, dtype=torch.long)  # (B, T)
        for target, row in zip(ids, rows, strict=True):
            target[: len(row)] = torch.tensor(
                [self._index.get(word) or self._unknown for word in row], dtype=torch.long
            )
        return ids

    def spell(self, rows: Sequence[Sequence[str]], width: int) -> Tensor:
        """Character ids (B, T, C) of B rows of at most T = `width` words, 0 beyond a row's end."""
        ids = np.zeros((len(rows), width, MAX_CHARACTERS), dtype=np.int64)  # (B, T, C)
        for target, row in zip(ids, rows, strict=True):
            if row:
                target[: len(row)] = [self._spell(word) for word in row]
        return torch.from_numpy(ids)


def _spell(word: str) -> NDArray[np.int16]:
    return np.array(word_to_ids(word, MAX_CHARACTERS), dtype=np.int16)  # (C,)
