"""ELMoForManyLangs' ids: a word is its Unicode characters, which lexicons of a biLM's own number.

An indexer knows no biLM. What it hands on are code points, the same for all of them; the biLM looks them up.
Source: `read_list` in `elmoformanylangs/elmo.py` and `create_one_batch` in `elmoformanylangs/frontend.py`.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from elmo_plugin.options import N_CHARACTERS
from elmo_plugin.text.byte_ids import check_sentences

BEGIN_OF_WORD = N_CHARACTERS
"""Ids begin where those of bytes end: a biLM that reads bytes fails on them instead of reading nonsense."""
FIRST_CODE_POINT = BEGIN_OF_WORD + 1
BOUNDARY_WORDS = ("<bos>", "<eos>")
"""Words that stand for the boundaries of a sentence, also where a text holds them."""
BEGIN_MARK, END_MARK = "<eow>", "<bow>"
"""Which entry of a lexicon stands before a word's characters, and which after: swapped in upstream's code, and so in
every model trained by it."""


def word_to_code_points(word: str, max_characters: int = 50) -> list[int]:
    """The code points of one word: a mark, its first `max_characters − 2` characters, padding; C − 1 of them."""
    ids = [BEGIN_OF_WORD, *(ord(character) + FIRST_CODE_POINT for character in word[: max_characters - 2])]
    return ids + [0] * (max_characters - 1 - len(ids))


def batch_to_code_points(sentences: Sequence[Sequence[str]], max_characters: int = 50) -> Tensor:
    """The code points of tokenised sentences, (B, T, C − 1), padded with 0 to the longest of them."""
    check_sentences(sentences)
    longest = max((len(sentence) for sentence in sentences), default=0)
    ids = torch.zeros(len(sentences), longest, max_characters - 1, dtype=torch.long)  # (B, T, C − 1)
    for row, sentence in zip(ids, sentences, strict=True):
        if len(sentence):
            row[: len(sentence)] = torch.tensor([word_to_code_points(word, max_characters) for word in sentence])
    return ids


def spellings(ids: Tensor) -> list[str]:
    """The words of code points (N, C − 1); padding is the empty word."""
    return ["".join(chr(id - FIRST_CODE_POINT) for id in word if id >= FIRST_CODE_POINT) for word in ids.tolist()]


def word_ids(words: Sequence[str], lexicon: Mapping[str, int]) -> Tensor:
    """The id of each word, (N,); one that the lexicon lacks is `<oov>`."""
    return torch.tensor([lexicon.get(word, lexicon["<oov>"]) for word in words])  # (N,)


def character_ids(words: Sequence[str], lexicon: Mapping[str, int], max_characters: int) -> Tensor:
    """The ids of each word's characters between two marks, (N, C); a boundary is a word of one character.

    Words have at most `max_characters − 2` characters.
    """
    unknown, padding = lexicon["<oov>"], lexicon["<pad>"]
    rows = []
    for word in words:
        characters = [word] if word in BOUNDARY_WORDS else list(word)
        ids = [lexicon[BEGIN_MARK], *(lexicon.get(character, unknown) for character in characters), lexicon[END_MARK]]
        rows.append(ids + [padding] * (max_characters - len(ids)))
    return torch.tensor(rows)  # (N, C)
