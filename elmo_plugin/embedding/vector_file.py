"""The interface of the file formats: part files are written one by one, then joined into the output."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from allennlp.common import Registrable

from elmo_plugin.embedding.corpus import Window


class Layout(NamedTuple):
    """The shape and the number type of each array of an output.

    `shape` is (L, −1, D) for all layers and (−1, D) for a mix, where −1 stands for the number of tokens. Pooled, it is
    (L, D) and (D,). `dtype` is the name of a NumPy type.
    """

    shape: tuple[int, ...]
    dtype: str

    @property
    def is_by_token(self) -> bool:
        """Return whether each token has a vector of its own."""
        return -1 in self.shape

    @property
    def is_by_layer(self) -> bool:
        """Return whether each layer has a vector of its own."""
        return len(self.shape) - self.is_by_token == 2

    def shape_of(self, tokens: int) -> tuple[int, ...]:
        """Return the shape of the array of a sentence with this many tokens."""
        return tuple(tokens if size == -1 else size for size in self.shape)


class VectorFile(ABC, Registrable):
    """A format for the vectors of a corpus."""

    part_ending: ClassVar[str]
    """The ending of the names of part files."""

    @abstractmethod
    def write_part(self, path: Path, window: Window, arrays: Iterable[tuple[int, np.ndarray]], layout: Layout) -> None:
        """Write a window's arrays to a new part file, which appears under its name when it is complete.

        `arrays` yields the index of a sentence in the window and its array, each sentence once and in any order. Equal
        windows produce equal files. Raises `ConfigurationError` if the disk is full.
        """

    @abstractmethod
    def join(self, parts: Path, target: Path, layout: Layout, progress: bool = True) -> None:
        """Join all part files of a text, in the folder `parts`, into the output. The parts lose their content.

        Parts and output together take little more disk space than the output. The output appears under its name when it
        is complete. If a call is killed or raises `OSError`, the next one finishes its work.
        """
