"""The ids and the token indexer of ELMoForManyLangs: a word is Unicode characters, which each biLM numbers in its way.

An indexer does not know the biLM, so it gives Unicode code points, which the biLM looks up in its own vocabularies.
Source: `read_list` in `elmoformanylangs/elmo.py` and `create_one_batch` in `elmoformanylangs/frontend.py`.
"""

from collections.abc import Iterable, Mapping, Sequence

import torch
from allennlp.common.util import pad_sequence_to_length
from allennlp.data import Token, TokenIndexer, Vocabulary
from torch import Tensor

from elmo_plugin.common import at_least
from elmo_plugin.text.byte_ids import N_CHARACTERS, padded_ids

IndexedTokens = dict[str, list[list[int]]]

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


@TokenIndexer.register("elmo_many_langs")
class ManyLangsIndexer(TokenIndexer):
    """Represent a token by its Unicode code points, which the biLM looks up in its own vocabularies.

    >>> ManyLangsIndexer(6).tokens_to_indices([Token("ab")], Vocabulary())
    {'elmo_tokens': [[262, 360, 361, 0, 0]]}

    Registered as a `TokenIndexer` with name `elmo_many_langs`.

    # Parameters

    max_characters_per_token : `int`
        C of the biLM. A smaller value than the biLM's cuts words earlier, to C − 2 characters.
    token_min_padding_length : `int`
        The smallest number of tokens in a padded sentence.
    """

    def __init__(self, max_characters_per_token: int = 50, token_min_padding_length: int = 0) -> None:
        at_least(3, max_characters_per_token=max_characters_per_token)  # two marks and one character
        at_least(0, token_min_padding_length=token_min_padding_length)
        super().__init__(token_min_padding_length)
        self.max_characters_per_token = max_characters_per_token

    def count_vocab_items(self, token: Token, counter: dict[str, dict[str, int]]) -> None:
        """Count nothing, because the vocabulary is not used."""

    def get_empty_token_list(self) -> IndexedTokens:
        """Return the indices of a text without tokens."""
        return {"elmo_tokens": []}

    def tokens_to_indices(self, tokens: list[Token], vocabulary: Vocabulary) -> IndexedTokens:
        """Return the code points of each token."""
        width = self.max_characters_per_token
        return {"elmo_tokens": [word_to_code_points(token.ensure_text(), width) for token in tokens]}

    def as_padded_tensor_dict(self, tokens: IndexedTokens, padding_lengths: dict[str, int]) -> dict[str, Tensor]:
        """Return `elmo_tokens` (T, C − 1)."""
        nothing = [0] * (self.max_characters_per_token - 1)
        padded = pad_sequence_to_length(tokens["elmo_tokens"], padding_lengths["elmo_tokens"], lambda: nothing)
        return {"elmo_tokens": torch.tensor(padded, dtype=torch.long).view(-1, len(nothing))}  # (T, C − 1)
