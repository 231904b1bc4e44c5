"""The first layer of a biLM: token vectors from the ids of characters or words."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError
from torch import Tensor, nn

WORDS_AT_ONCE = 256
"""The number of words that are encoded at once, which bounds the memory of their convolutions."""
WORDS_AT_ONCE_ON_GPU = 4096
"""The same on a GPU, which is faster with fewer and larger operations."""

MULTIPLIER = 6364136223846793005
"""The base of the polynomial that hashes a word: the multiplier of Knuth's 64-bit random generator MMIX."""

IDS = "the ids of ELMo's tokens"
"""What errors call the ids of a batch."""
FEWEST_WORDS = 16
"""The number to which fewer words are padded: a CPU multiplies fewer rows by routines with other rounding errors."""


class TokenTable(NamedTuple):
    """The vectors of distinct words, and the row of each token: a repeated word is computed once.

    *Shape:* vectors (M, P) · where (B, T).
    """

    vectors: Tensor
    where: Tensor

    @classmethod
    def of(cls, tokens: Tensor) -> "TokenTable":
        """Return a table with one row per token (B, T, P)."""
        rows = torch.arange(tokens[..., 0].numel(), device=tokens.device)  # (B·T,)
        return cls(tokens.flatten(0, 1), rows.view(tokens.shape[:2]))

    def dense(self) -> Tensor:
        """Return the vector of each token, (B, T, P)."""
        return self.vectors[self.where]


def check_padding(mask: Tensor, name: str) -> None:
    """Raise `ConfigurationError`, which calls the rows `name`, if a row of a mask (B, T) has padding before a token."""
    wrong = (mask[:, 1:] > mask[:, :-1]).any(dim=1).nonzero()  # (rows, 1)
    if len(wrong):
        raise ConfigurationError(
            f"{name}: expected padding only at the end of a row, got padding before a token in row {int(wrong[0])}; "
            "`batch_to_ids` pads so, and Keras with padding='post'"
        )


def add_boundaries(ids: Tensor, mask: Tensor, begin: Any, end: Any) -> Tensor:
    """Put the ids of `<S>` and `</S>` around each sentence: (B, T, ·) with mask (B, T) to (B, T + 2, ·).

    The result equals AllenNLP's `add_sentence_boundary_token_ids`, which copies the ids of one sentence after the other
    and needs up to 2B launches on a GPU. Raises `ConfigurationError` for padding before a token.
    """
    check_padding(mask, IDS)
    bounded = nn.functional.pad(ids, (0, 0) * (ids.dim() - 2) + (1, 1))
    bounded[:, 0] = begin
    bounded[torch.arange(len(ids), device=ids.device), mask.sum(dim=1) + 1] = end
    return bounded


def distinct_rows(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct rows (M, C) of ids (N, C), and the number of each row among them (N,).

    Sorting a 64-bit hash of the rows is faster than sorting the rows, as `unique(dim=0)` does.
    """
    powers = torch.tensor([pow(MULTIPLIER, k, 2**63) for k in range(ids.size(1))], device=ids.device)  # (C,)
    hashes, where = (ids * powers).sum(dim=1).unique(return_inverse=True)  # (M,), (N,)
    one_of_each = torch.empty_like(hashes).scatter_(0, where, torch.arange(len(ids), device=ids.device))
    words = ids[one_of_each]  # (M, C)
    if torch.equal(words[where], ids):
        return words, where
    return ids.unique(dim=0, return_inverse=True)  # two rows have the same hash


class TokenEncoder(nn.Module, ABC, Registrable):
    """Computes token vectors from ids, without context.

    The ids may be on any device. On the CPU no GPU has to be waited for to know the lengths and the distinct words.

    An encoder of your own that reads bytes is a subclass of `ByteEncoder`, and one that reads other ids of a word's
    characters is a subclass of `CharacterLevelEncoder`. Register it as a `TokenEncoder`; the key `token_encoder` of a
    biLM's `options` names it, and its constructor gets the width of the vectors as `output_dim`. Errors are a
    `ConfigurationError`, `'key': expected X, got Y`. See docs/extend.md.
    """

    input_dims: int
    """The number of dimensions of the ids: 3 for characters (B, T, C), 2 for words (B, T)."""

    @property
    def weight(self) -> Tensor:
        """Return one of the weights, which has the device and the type of all."""
        return next(self.parameters())

    @abstractmethod
    def boundaries(self, ids: Tensor) -> tuple[Any, Any]:
        """Return the ids of `<S>` and `</S>`, on the device of `ids`."""

    @abstractmethod
    def fit(self, ids: Tensor) -> Tensor:
        """Convert the ids of an indexer to the form that this encoder reads."""

    def mask(self, ids: Tensor) -> Tensor:
        """Return where there is a token, (B, T): where the id of a word, or one of its characters, is not 0."""
        return (ids > 0).unsqueeze(-1).flatten(2).any(dim=-1)

    @abstractmethod
    def look_up(self, ids: Tensor) -> TokenTable:
        """Return a table of vectors (M, P) and the row of each token (B, T), on the device of the weights."""

    def bounded(self, ids: Tensor) -> Tensor:
        """Convert the ids of an indexer to this encoder's form, with `<S>` and `</S>` around each sentence."""
        fitted = self.fit(ids).long()  # (B, T, ·)
        present, (begin, end) = self.mask(fitted), self.boundaries(fitted)
        return add_boundaries(fitted, present, begin, end)  # (B, T + 2, ·)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the vector of each token (B, T, P)."""
        return self.look_up(ids).dense()


class WordEncoder(TokenEncoder):
    """An embedding of the words of a vocabulary file: its first line has the id 1, and 0 is the mask.

    AllenNLP's `single_id` indexer gives these ids when its vocabulary is read from that file (`"oov_token": "<UNK>"`).

    # Parameters

    n_tokens_vocab : `int`
        The number of lines of the vocabulary file (V).
    output_dim : `int`
        The width of a word's vector (P).
    boundary_ids : `tuple[int, int]`
        The ids of `<S>` and `</S>`.
    """

    input_dims = 2

    def __init__(self, n_tokens_vocab: int, output_dim: int, boundary_ids: tuple[int, int] = (1, 2)) -> None:
        super().__init__()
        self.boundary_ids = boundary_ids
        self.embedding = nn.Embedding(n_tokens_vocab + 1, output_dim, padding_idx=0)

    @property
    def weight(self) -> Tensor:
        """Return the vectors of words."""
        return self.embedding.weight

    def boundaries(self, ids: Tensor) -> tuple[int, int]:
        """Return the ids of `<S>` and `</S>`."""
        return self.boundary_ids

    def fit(self, ids: Tensor) -> Tensor:
        """Return the ids (B, T) as they are."""
        return ids

    def look_up(self, ids: Tensor) -> TokenTable:
        """Return the whole embedding and the ids (B, T). Raises `ValueError` for an id that has no row."""
        highest = int(ids.max()) if ids.numel() else 0
        if highest >= self.embedding.num_embeddings:
            raise ValueError(
                f"expected word ids up to {self.embedding.num_embeddings - 1}, got the id {highest}: read the text "
                "with the vocabulary that the biLM was trained with; if that has no <UNK>, it must have every word"
            )
        return TokenTable(self.embedding.weight, ids.to(self.weight.device, non_blocking=True))


class CharacterLevelEncoder(TokenEncoder):
    """Encodes a word from its ids (C,) alone."""

    input_dims = 3

    @abstractmethod
    def batch_to_ids(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """Return the ids of tokenized sentences, (B, T, C), without boundaries, padded with 0."""

    @abstractmethod
    def encode_some(self, words: Tensor) -> Tensor:
        """Encode ids (N, C) as vectors (N, P), all at once."""

    def look_up(self, ids: Tensor) -> TokenTable:
        """Return the vectors (M, P) of the distinct words in ids (B, T, C), and the row of each token (B, T)."""
        words, where = distinct_rows(ids.flatten(0, 1))  # (M, C), (B·T,)
        vectors = self.encode_all(words)  # (M, P)
        return TokenTable(vectors, where.view(ids.shape[:2]).to(vectors.device, non_blocking=True))

    def encode_all(self, words: Tensor) -> Tensor:
        """Encode ids (M, C) as vectors (M, P), `WORDS_AT_ONCE` at a time."""
        vectors = []
        for some in words.split(WORDS_AT_ONCE if self.weight.device.type == "cpu" else WORDS_AT_ONCE_ON_GPU):
            added = some.new_zeros(max(0, FEWEST_WORDS - len(some)), some.size(1))
            vectors.append(self.encode_some(torch.cat([some, added]))[: len(some)])
        return torch.cat(vectors)
