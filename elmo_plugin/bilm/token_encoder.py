"""The first layer of a biLM: token vectors from the ids of characters or words."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


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


def add_boundaries(ids: Tensor, mask: Tensor, begin: Any, end: Any) -> Tensor:
    """Put the ids of `<S>` and `</S>` around each sentence: (B, T, ·) with mask (B, T) to (B, T + 2, ·).

    The result equals AllenNLP's `add_sentence_boundary_token_ids`, which copies the ids of one sentence after the other
    and needs up to 2B launches on a GPU.
    """
    bounded = functional.pad(ids, (0, 0) * (ids.dim() - 2) + (1, 1))
    bounded[:, 0] = begin
    bounded[torch.arange(len(ids), device=ids.device), mask.sum(dim=1) + 1] = end
    return bounded


class TokenEncoder(nn.Module, ABC):
    """Computes token vectors from ids, without context."""

    input_dims: int
    """The number of dimensions of the ids: 3 for characters (B, T, C), 2 for words (B, T)."""

    @property
    @abstractmethod
    def weight(self) -> Tensor:
        """Return one of the weights, which has the device and the type of all."""

    @abstractmethod
    def boundaries(self, ids: Tensor) -> tuple[Any, Any]:
        """Return the ids of `<S>` and `</S>`, on the device of `ids`."""

    @abstractmethod
    def fit(self, ids: Tensor) -> Tensor:
        """Convert the ids of an indexer to the form that this encoder reads."""

    @abstractmethod
    def mask(self, ids: Tensor) -> Tensor:
        """Return the mask of the tokens (B, T)."""

    @abstractmethod
    def look_up(self, ids: Tensor) -> TokenTable:
        """Return a table of vectors (M, P) and the row of each token (B, T)."""

    def bounded(self, ids: Tensor) -> Tensor:
        """Convert the ids of an indexer to this encoder's form, with `<S>` and `</S>` around each sentence."""
        fitted = self.fit(ids).long()  # (B, T, ·)
        present, (begin, end) = self.mask(fitted), self.boundaries(fitted)
        return add_boundaries(fitted, present, begin, end)  # (B, T + 2, ·)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the vector of each token (B, T, P)."""
        return self.look_up(ids).dense()
