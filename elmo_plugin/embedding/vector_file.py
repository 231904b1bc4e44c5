"""What a file of vectors is."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError


class Layout(NamedTuple):
    """What each array of a file is like.

    `shape` is (L, −1, D) for all layers of each token and (−1, D) for a mix of them; pooled, (L, D) and (D,).
    `dtype` is the name of NumPy's type.
    """

    shape: tuple[int, ...]
    dtype: str

    @property
    def is_by_token(self) -> bool:
        """Whether there is a vector a token."""
        return -1 in self.shape

    @property
    def is_by_layer(self) -> bool:
        """Whether there is a vector a layer."""
        return len(self.shape) - self.is_by_token == 2

    def size(self, tokens: int) -> int:
        """Bytes of the array of a sentence with that many tokens."""
        return int(np.prod([tokens if count == -1 else count for count in self.shape])) * np.dtype(self.dtype).itemsize


class EmbeddedSentence(NamedTuple):
    """A line of a corpus, its number from 0, and its vectors."""

    line: int
    text: str
    tokens: list[str]
    vectors: np.ndarray


class VectorFile(ABC, Registrable):
    """A format that keeps a corpus' vectors in one file."""

    @abstractmethod
    def write(self, path: Path, sentences: Iterable[EmbeddedSentence], layout: Layout) -> None:
        """Write sentences, which come in their corpus' order, to a new file; equal sentences make an equal file.

        One of them is in memory at a time, or a bounded number. Raises `OSError` where the disk takes no more.
        """


def refuse_existing(*paths: Path) -> None:
    """Raise `ConfigurationError` for the first path where there is something already."""
    for path in paths:
        if path.exists():
            raise ConfigurationError(f"'{path}' is there already; name another output, or delete it")
