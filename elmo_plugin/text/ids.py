"""The ids of characters: the UTF-8 bytes of a word, or its Unicode code points.

A biLM of bilm-tf reads bytes between two marks, plus 1, because 0 is the mask. Source: `UnicodeCharsVocabulary` in
bilm-tf's `bilm/data.py`; AllenNLP's `elmo_characters` indexer makes the same ids.

A biLM of ELMoForManyLangs numbers the characters in its own way. An indexer does not know the biLM, so it gives code
points, which the biLM looks up in its own vocabularies. Source: `read_list` in `elmoformanylangs/elmo.py` and
`create_one_batch` in `elmoformanylangs/frontend.py`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from allennlp.data import Token, TokenIndexer, Vocabulary
from torch import Tensor, nn

from elmo_plugin.common import at_least
from elmo_plugin.text.predictor_input import token_lists

N_CHARACTERS = 262
"""The rows of bilm-tf's character embedding: 256 bytes, five marks, and row 0 for masked positions."""
BEGIN_OF_SENTENCE = 256 + 1
END_OF_SENTENCE = 257 + 1
WORD_BEGINS = 258 + 1
WORD_ENDS = 259 + 1
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
    missing = max_characters - ids.size(-1)
    if missing == 0:
        return ids
    was_cut = (ids[..., max_characters:] != PADDING).any(dim=-1)  # (B, T)
    fitted = nn.functional.pad(ids, (0, missing), value=PADDING)  # (B, T, C); a negative number of columns is cut
    fitted[..., -1] = torch.where(was_cut, WORD_ENDS, fitted[..., -1])
    return torch.where((ids > 0).any(dim=-1, keepdim=True), fitted, 0)


def _framed(characters: list[int], max_characters: int) -> list[int]:
    ids = [WORD_BEGINS, *characters[: max_characters - 2], WORD_ENDS]
    return ids + [PADDING] * (max_characters - len(ids))


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
        ids = torch.tensor(tokens["elmo_tokens"], dtype=torch.long).view(-1, self.max_characters_per_token - 1)
        missing = padding_lengths["elmo_tokens"] - len(ids)
        return {"elmo_tokens": nn.functional.pad(ids, (0, 0, 0, missing))}  # (T, C − 1)
