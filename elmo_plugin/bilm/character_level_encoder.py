"""The base class of token encoders that read a word's characters. They encode each distinct word once."""

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from elmo_plugin.bilm.token_encoder import TokenEncoder, TokenTable

WORDS_AT_ONCE = 256
"""Words encoded at once, which bounds memory: at the original size a word's convolutions take 0.1 to 0.4 MB."""
WORDS_AT_ONCE_ON_GPU = 4096
"""The same on a GPU, which is faster with few large operations."""

FEWEST_WORDS = 16
"""Fewer words are padded to this number, because a CPU multiplies fewer rows by routines with other rounding errors."""


class CharacterLevelEncoder(TokenEncoder):
    """Encodes a word from its ids (C,) alone. A word whose ids are all 0 is no token."""

    input_dims = 3

    @abstractmethod
    def batch_to_ids(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """Return the ids of tokenized sentences, (B, T, C), without boundaries, padded with 0."""

    @abstractmethod
    def encode_some(self, words: Tensor) -> Tensor:
        """Encode ids (N, C) as vectors (N, P), all at once."""

    def mask(self, ids: Tensor) -> Tensor:
        """Return where there is a token, (B, T)."""
        return (ids > 0).any(dim=-1)

    def look_up(self, ids: Tensor) -> TokenTable:
        """Return the vectors (M, P) of the distinct words in ids (B, T, C), and the row of each token (B, T)."""
        words, where = ids.flatten(0, 1).unique(dim=0, return_inverse=True)  # (M, C), (B·T,)
        return TokenTable(self.encode_all(words), where.view(ids.shape[:2]))

    def encode_all(self, words: Tensor) -> Tensor:
        """Encode ids (M, C) as vectors (M, P), `WORDS_AT_ONCE` at a time."""
        vectors = []
        for some in words.split(WORDS_AT_ONCE if words.device.type == "cpu" else WORDS_AT_ONCE_ON_GPU):
            added = some.new_zeros(max(0, FEWEST_WORDS - len(some)), some.size(1))
            vectors.append(self.encode_some(torch.cat([some, added]))[: len(some)])
        return torch.cat(vectors)
