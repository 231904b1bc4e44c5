"""Vectors in NumPy's own archive, for `numpy.load`."""

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from elmo_plugin.embedding.vector_file import EmbeddedSentence, Layout, VectorFile


@VectorFile.register("npz")
class NpzFile(VectorFile):
    """An array a line, its name the line's number from 0; an empty line's has a T of 0.

    The directory at the end of an archive is kept in memory until then: some hundred bytes a line.

    Registered as a `VectorFile` with name `npz`.

    # Parameters

    compress : `bool`
        As `numpy.savez_compressed` does.
    """

    def __init__(self, compress: bool = False) -> None:
        self._compression = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED

    def write(self, path: Path, sentences: Iterable[EmbeddedSentence], layout: Layout) -> None:
        """Write the arrays of sentences to a new file."""
        with zipfile.ZipFile(path, "w") as archive:
            for sentence in sentences:
                entry = zipfile.ZipInfo(f"{sentence.line}.npy")  # of no date: equal sentences make an equal file
                entry.compress_type = self._compression
                with archive.open(entry, "w", force_zip64=True) as array:
                    np.lib.format.write_array(array, np.ascontiguousarray(sentence.vectors), allow_pickle=False)

    def _to_params(self) -> dict[str, Any]:
        return {"type": "npz", "compress": self._compression == zipfile.ZIP_DEFLATED}
