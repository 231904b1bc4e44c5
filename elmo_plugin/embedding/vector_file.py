"""The interface of the file formats: part files that are written one by one, and the output that is joined of them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from allennlp.common import Registrable

from elmo_plugin.embedding.corpus import Window


class Layout(NamedTuple):
    """The shape and the number type of each array of an output.

    `shape` is (L, −1, D) for all layers of each token, where −1 stands for the number of tokens, and (−1, D) for a mix
    of them; pooled, it is (L, D) and (D,). `dtype` is the name of NumPy's type.
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
        """Return the shape of the array of a sentence with that many tokens."""
        return tuple(tokens if size == -1 else size for size in self.shape)


class VectorFile(ABC, Registrable):
    """A format for the vectors of a corpus."""

    part_ending: ClassVar[str]
    """The ending of the names of part files."""

    @abstractmethod
    def write_part(self, path: Path, window: Window, arrays: Iterable[tuple[int, np.ndarray]], layout: Layout) -> None:
        """Write a window's arrays to a new part file, which gets its name when it is complete.

        `arrays` yields the index of a sentence in the window and its array, each sentence once and in any order. Equal
        windows make equal files. Raises `ConfigurationError` if the disk is full.
        """

    @abstractmethod
    def join(self, parts: Path, target: Path, layout: Layout, progress: bool = True) -> None:
        """Make the output of all part files of a text, which are in the folder `parts`. They lose their content.

        Parts and output together take little more than the output on the disk. The output gets its name when it is
        complete. If a call is killed or raises `OSError`, the next one finishes its work.
        """
