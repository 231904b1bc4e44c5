"""What token encoders that read the spelling of words have in common: a word that stands twice is encoded once."""

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from elmo_plugin.bilm.token_encoder import TokenEncoder, TokenTable

WORDS_AT_ONCE = 256
"""Words encoded at a time: at the original size a word's convolutions take 0.1 to 0.4 MB, so this bounds memory."""

FEWEST_WORDS = 16
"""For fewer a CPU takes other routines, whose last bits differ: a word shall not depend on those beside it."""


class CharacterLevelEncoder(TokenEncoder):
    """Makes a word's vector from its ids (C,) alone, 0 where there is no token."""

    input_dims = 3

    @abstractmethod
    def batch_to_ids(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """The ids of tokenised sentences, (B, T, C), without boundaries, padded with 0."""

    @abstractmethod
    def encode_some(self, words: Tensor) -> Tensor:
        """Ids (N, C) to vectors (N, P), all at once."""

    def mask(self, ids: Tensor) -> Tensor:
        """Where there is a token, (B, T)."""
        return (ids > 0).any(dim=-1)

    def look_up(self, ids: Tensor) -> TokenTable:
        """Ids (B, T, C) to the vectors of the words in them, (M, P), and which of them each is, (B, T)."""
        words, where = ids.flatten(0, 1).unique(dim=0, return_inverse=True)  # (M, C), (B·T,)
        return TokenTable(self.encode_all(words), where.view(ids.shape[:2]))

    def encode_all(self, words: Tensor) -> Tensor:
        """Ids (M, C) to vectors (M, P), in the memory that `WORDS_AT_ONCE` words take."""
        return torch.cat([self._in_company(some) for some in words.split(WORDS_AT_ONCE)])

    def _in_company(self, words: Tensor) -> Tensor:
        """Ids (N, C) to vectors (N, P), also where they are few."""
        company = words.new_zeros(max(0, FEWEST_WORDS - len(words)), words.size(1))
        return self.encode_some(torch.cat([words, company]))[: len(words)]
