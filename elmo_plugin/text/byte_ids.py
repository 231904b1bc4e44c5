"""The character ids of bilm-tf: the UTF-8 bytes of a word between two marks, plus 1, because 0 is the mask.

Source: `UnicodeCharsVocabulary` in bilm-tf's `bilm/data.py`; AllenNLP's `elmo_characters` indexer makes the same ids.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo_plugin.common import at_least
from elmo_plugin.text.predictor_input import token_lists

N_CHARACTERS = 262
"""The rows of bilm-tf's character embedding: 256 bytes, five marks, and row 0 for masked positions."""
BEGIN_OF_SENTENCE = 256 + 1
END_OF_SENTENCE = 257 + 1
BEGIN_OF_WORD = 258 + 1
END_OF_WORD = 259 + 1
PADDING = 260 + 1
BOUNDARY_MARKS = {"<S>": BEGIN_OF_SENTENCE, "</S>": END_OF_SENTENCE}
"""Words that are sentence boundaries, as in AllenNLP's `ELMoCharacterMapper.convert_word_to_char_ids`."""


def word_to_ids(word: str, max_characters: int = 50) -> list[int]:
    """Return the ids of one word: begin mark, its first `max_characters − 2` bytes, end mark, padding.

    Lone surrogates, which UTF-8 cannot encode, are dropped, as in bilm-tf. `<S>` and `</S>` get their own ids.

    >>> word_to_ids("ab", max_characters=6)
    [259, 98, 99, 260, 261, 261]
    """
    if word in BOUNDARY_MARKS:
        return boundary_ids(BOUNDARY_MARKS[word], max_characters)
    return _framed([byte + 1 for byte in word.encode("utf-8", "ignore")], max_characters)


def boundary_ids(mark: int, max_characters: int = 50) -> list[int]:
    """Return the ids of the sentence boundary `<S>` or `</S>`, a word of the single character `mark`."""
    return _framed([mark], max_characters)


def batch_to_ids(sentences: Iterable[Iterable[str]], max_characters: int = 50) -> Tensor:
    """Return the ids of tokenized sentences, (B, T, C), padded with 0 to the longest sentence.

    Unlike `allennlp.modules.elmo.batch_to_ids`, it works for any C of 3 or more: two marks and one byte.

    >>> batch_to_ids([["Two", "words"], ["One"]]).shape
    torch.Size([2, 2, 50])
    """
    at_least(3, max_characters=max_characters)
    return padded_ids(sentences, lambda word: word_to_ids(word, max_characters), max_characters)


def padded_ids(sentences: Any, word_to_ids: Callable[[str], list[int]], width: int) -> Tensor:
    """Return the ids of each word of tokenized sentences, (B, T, width), padded with 0 to the longest sentence."""
    lists = token_lists(sentences)
    lengths = np.array([len(words) for words in lists], dtype=np.int64)  # (B,)
    numbers: dict[str, int] = {}  # of the distinct words
    tokens = [numbers.setdefault(word, len(numbers)) for words in lists for word in words]
    ids = np.zeros((len(lists), lengths.max(initial=0), width), dtype=np.int64)  # (B, T, width)
    if tokens:
        ids[np.arange(ids.shape[1]) < lengths[:, None]] = np.array([word_to_ids(word) for word in numbers])[tokens]
    return torch.from_numpy(ids)


def fit_width(ids: Tensor, max_characters: int) -> Tensor:
    """Cut or widen ids to the C of a model: (B, T, C') → (B, T, C).

    A word that is cut keeps its end mark. The result equals `word_to_ids(word, max_characters)` unless the word was
    longer than C'.
    """
    width = ids.size(-1)
    if width == max_characters:
        return ids
    if width < max_characters:
        present = (ids > 0).any(dim=-1, keepdim=True)  # (B, T, 1)
        padding = torch.where(present, PADDING, 0).expand(*ids.shape[:-1], max_characters - width)
        return torch.cat([ids, padding], dim=-1)  # (B, T, C)
    kept = ids[..., :max_characters].clone()  # (B, T, C)
    was_cut = (ids[..., max_characters:] != PADDING).any(dim=-1) & (ids[..., 0] > 0)  # (B, T)
    kept[..., -1] = torch.where(was_cut, END_OF_WORD, kept[..., -1])
    return kept


def _framed(characters: list[int], max_characters: int) -> list[int]:
    ids = [BEGIN_OF_WORD, *characters[: max_characters - 2], END_OF_WORD]
    return ids + [PADDING] * (max_characters - len(ids))
