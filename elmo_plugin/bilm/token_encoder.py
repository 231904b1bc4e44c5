"""What the first layer of a biLM is: ids to token vectors, of characters or of words."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from allennlp.nn.util import add_sentence_boundary_token_ids
from torch import Tensor, nn


class TokenTable(NamedTuple):
    """The vectors of distinct words, and the row of each token: a repeated word need not be computed twice.

    *Shape:* vectors (M, P) · where (B, T).
    """

    vectors: Tensor
    where: Tensor

    @classmethod
    def of(cls, tokens: Tensor) -> "TokenTable":
        """Tokens (B, T, P) of which none is known to repeat."""
        rows = torch.arange(tokens[..., 0].numel(), device=tokens.device)  # (B·T,)
        return cls(tokens.flatten(0, 1), rows.view(tokens.shape[:2]))

    def dense(self) -> Tensor:
        """Return the vector of each token, (B, T, P)."""
        return self.vectors[self.where]


class TokenEncoder(nn.Module, ABC):
    """Makes context-free token vectors, and knows the ids that it reads."""

    input_dims: int
    """Dimensions of its ids: 3 for characters (B, T, C), 2 for words (B, T)."""

    @abstractmethod
    def boundaries(self, ids: Tensor) -> tuple[Any, Any]:
        """The ids of `<S>` and `</S>`, on the device of `ids`."""

    @abstractmethod
    def fit(self, ids: Tensor) -> Tensor:
        """Ids as an indexer makes them, in the form that this encoder reads."""

    @abstractmethod
    def mask(self, ids: Tensor) -> Tensor:
        """Where there is a token, (B, T)."""

    @abstractmethod
    def look_up(self, ids: Tensor) -> TokenTable:
        """Ids to a table of vectors, (M, P), and which of them each token is, (B, T)."""

    def bounded(self, ids: Tensor) -> Tensor:
        """Ids as an indexer makes them, in this encoder's form and with `<S>` and `</S>` around each sentence."""
        fitted = self.fit(ids)  # (B, T, ·)
        present, (begin, end) = self.mask(fitted), self.boundaries(fitted)
        return add_sentence_boundary_token_ids(fitted, present, begin, end)[0]  # type: ignore[arg-type]  # (B, T + 2, ·)

    def forward(self, ids: Tensor) -> Tensor:
        """Ids to token vectors, (B, T, P)."""
        return self.look_up(ids).dense()
