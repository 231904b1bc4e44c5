"""Vectors in NumPy's own archive, for `numpy.load`."""

import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from elmo_plugin.common import atomic_file
from elmo_plugin.embedding.corpus import Window
from elmo_plugin.embedding.joining import Pieces, join_parts
from elmo_plugin.embedding.vector_file import Layout, VectorFile


@VectorFile.register("npz")
class NpzFile(VectorFile):
    """Holds one array per line, named after the line's number from 0. For an empty line, T is 0.

    The archive's directory is kept in memory while it is written: a few hundred bytes per line.

    Registered as a `VectorFile` with name `npz`.

    # Parameters

    compress : `bool`
        Compress as `numpy.savez_compressed` does.
    """

    part_ending = ".npz"

    def __init__(self, compress: bool = False) -> None:
        self._compression = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED

    def write_part(self, path: Path, window: Window, arrays: Iterable[tuple[int, np.ndarray]], layout: Layout) -> None:
        """Write a window's arrays to an archive."""
        with atomic_file(path) as partial, zipfile.ZipFile(partial, "w") as archive:
            for index, array in arrays:
                entry = zipfile.ZipInfo(f"{window.start + index}.npy")  # undated: equal windows make equal files
                entry.compress_type = self._compression
                with archive.open(entry, "w", force_zip64=True) as file:
                    stored = np.ascontiguousarray(array, dtype=layout.dtype)
                    np.lib.format.write_array(file, stored, allow_pickle=False)

    def join(self, parts: Path, target: Path, layout: Layout, progress: bool = True) -> None:
        """Move the entries of all parts into one archive with one directory."""

        def lay_out(path: Path, add: Callable[[Pieces], None]) -> None:
            entries: list[zipfile.ZipInfo] = []
            end = 0
            for part in sorted(parts.iterdir()):
                with zipfile.ZipFile(part) as archive:
                    for entry in archive.infolist():
                        entry.header_offset += end
                        entries.append(entry)
                    add([(0, end, archive.start_dir)])
                    end += archive.start_dir
            entries.sort(key=lambda entry: int(entry.filename.removesuffix(".npy")))
            with zipfile.ZipFile(path, "w") as archive:  # on closing, it writes its directory at `start_dir`
                archive.filelist, archive.start_dir = entries, end

        join_parts(parts, target, lay_out, progress)

    def _to_params(self) -> dict[str, Any]:
        return {"type": "npz", "compress": self._compression == zipfile.ZIP_DEFLATED}
