"""The ids of ELMoForManyLangs: a word is a sequence of Unicode characters, which each biLM numbers in its own way.

An indexer does not know the biLM, so it passes on code points, and the biLM looks them up in its vocabularies.
Source: `read_list` in `elmoformanylangs/elmo.py` and `create_one_batch` in `elmoformanylangs/frontend.py`.
"""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from elmo_plugin.options import N_CHARACTERS
from elmo_plugin.text.sentences import token_lists

BEGIN_OF_WORD = N_CHARACTERS
"""These ids begin where byte ids end, so that a biLM that reads bytes rejects them."""
FIRST_CODE_POINT = BEGIN_OF_WORD + 1
BOUNDARY_WORDS = ("<bos>", "<eos>")
"""Words that are sentence boundaries, also inside a text."""
BEGIN_MARK, END_MARK = "<eow>", "<bow>"
"""The entries before and after the characters of a word. ELMoForManyLangs swaps them, in code and in trained models."""


def word_to_code_points(word: str, max_characters: int = 50) -> list[int]:
    """Return C − 1 ids of one word: a begin mark, its first `max_characters − 2` code points, padding."""
    ids = [BEGIN_OF_WORD, *(ord(character) + FIRST_CODE_POINT for character in word[: max_characters - 2])]
    return ids + [0] * (max_characters - 1 - len(ids))


def batch_to_code_points(sentences: Iterable[Iterable[str]], max_characters: int = 50) -> Tensor:
    """Return the code points of tokenized sentences, (B, T, C − 1), padded with 0 to the longest sentence."""
    lists = token_lists(sentences)
    longest = max(map(len, lists), default=0)
    ids = torch.zeros(len(lists), longest, max_characters - 1, dtype=torch.long)  # (B, T, C − 1)
    for row, sentence in zip(ids, lists, strict=True):
        if sentence:
            row[: len(sentence)] = torch.tensor([word_to_code_points(word, max_characters) for word in sentence])
    return ids


def spellings(ids: Tensor) -> list[str]:
    """Return the words with these code points (N, C − 1). Padding is the empty word."""
    return ["".join(chr(id - FIRST_CODE_POINT) for id in word if id >= FIRST_CODE_POINT) for word in ids.tolist()]


def word_ids(words: Sequence[str], vocabulary: Mapping[str, int]) -> Tensor:
    """Return the id of each word, (N,). A word that the vocabulary lacks gets the id of `<oov>`."""
    return torch.tensor([vocabulary.get(word, vocabulary["<oov>"]) for word in words])  # (N,)


def character_ids(words: Sequence[str], vocabulary: Mapping[str, int], max_characters: int) -> Tensor:
    """Return the ids of each word's characters between two marks, (N, C). A boundary is a word of one character.

    Words must have at most `max_characters − 2` characters.
    """
    unknown, padding = vocabulary["<oov>"], vocabulary["<pad>"]
    rows = []
    for word in words:
        characters = [word] if word in BOUNDARY_WORDS else list(word)
        ids = [
            vocabulary[BEGIN_MARK],
            *(vocabulary.get(character, unknown) for character in characters),
            vocabulary[END_MARK],
        ]
        rows.append(ids + [padding] * (max_characters - len(ids)))
    return torch.tensor(rows)  # (N, C)
