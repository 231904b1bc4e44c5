"""The ids of ELMoForManyLangs: a word is a sequence of Unicode characters, which each biLM numbers in its own way.

An indexer does not know the biLM, so it gives Unicode code points, which the biLM looks up in its own vocabularies.
Source: `read_list` in `elmoformanylangs/elmo.py` and `create_one_batch` in `elmoformanylangs/frontend.py`.
"""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from elmo_plugin.text.byte_ids import N_CHARACTERS
from elmo_plugin.text.sentences import padded_ids

BEGIN_OF_WORD = N_CHARACTERS
"""The smallest of these ids. It follows the largest byte id, so that a biLM that reads bytes rejects code points."""
FIRST_CODE_POINT = BEGIN_OF_WORD + 1
BOUNDARY_WORDS = ("<bos>", "<eos>")
"""The sentence boundaries. ELMoForManyLangs reads these words as boundaries inside a text too."""
BEGIN_MARK, END_MARK = "<eow>", "<bow>"
"""The entries before and after the characters of a word. ELMoForManyLangs swaps them, in code and in trained models."""


def word_to_code_points(word: str, max_characters: int = 50) -> list[int]:
    """Return C − 1 ids of one word: a begin mark, its first `max_characters − 2` code points, padding."""
    ids = [BEGIN_OF_WORD, *(ord(character) + FIRST_CODE_POINT for character in word[: max_characters - 2])]
    return ids + [0] * (max_characters - 1 - len(ids))


def batch_to_code_points(sentences: Iterable[Iterable[str]], max_characters: int = 50) -> Tensor:
    """Return the code points of tokenized sentences, (B, T, C − 1), padded with 0 to the longest sentence."""
    return padded_ids(sentences, lambda word: word_to_code_points(word, max_characters), max_characters - 1)


def spellings(ids: Tensor) -> list[str]:
    """Return the words with these code points (N, C − 1). Padding is the empty word."""
    return ["".join(chr(id - FIRST_CODE_POINT) for id in word if id >= FIRST_CODE_POINT) for word in ids.tolist()]


def word_ids(words: Sequence[str], vocabulary: Mapping[str, int]) -> Tensor:
    """Return the id of each word, (N,). A word that the vocabulary lacks gets the id of `<oov>`."""
    unknown = vocabulary["<oov>"]
    return torch.tensor([vocabulary.get(word, unknown) for word in words])  # (N,)


def character_ids(words: Sequence[str], vocabulary: Mapping[str, int], max_characters: int) -> Tensor:
    """Return the ids of each word's characters between two marks, (N, C). A boundary counts as a single character.

    Words must have at most `max_characters − 2` characters.
    """
    unknown, padding = vocabulary["<oov>"], vocabulary["<pad>"]
    begin, end = vocabulary[BEGIN_MARK], vocabulary[END_MARK]
    rows = []
    for word in words:
        characters = [word] if word in BOUNDARY_WORDS else word
        ids = [begin, *(vocabulary.get(character, unknown) for character in characters), end]
        rows.append(ids + [padding] * (max_characters - len(ids)))
    return torch.tensor(rows)  # (N, C)
