"""Vectors in hdf5, in the layout of AllenNLP's retired command `allennlp elmo` (`allennlp/commands/elmo.py` of 0.9)."""

import json
import logging
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO, FileIO
from pathlib import Path
from typing import IO, Any, NamedTuple, Optional

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t

from elmo_plugin.common import atomic_file
from elmo_plugin.embedding.corpus import Window
from elmo_plugin.embedding.joining import Pieces, join_parts
from elmo_plugin.embedding.vector_file import Layout, VectorFile

logger = logging.getLogger(__name__)

INDEX = "sentence_to_index"
LONGEST_INDEX = 2**31 - 1
"""The longest string, in bytes, that NumPy and therefore h5py can read."""
ROWS_IN_CHUNK = 4096
"""Rows that are compressed together. hdf5 limits a chunk to 4 GB."""

Chunk = tuple[int, int]
"""The size of a stored chunk in bytes, and hdf5's mask of the filters that were skipped for it."""
KeyOf = Callable[[int, str], Optional[str]]


class PartLine(NamedTuple):
    """A line of a part: its text, its number of tokens, and its chunks, which begin at `start`."""

    text: str
    tokens: int
    start: int
    chunks: list[Chunk]


@VectorFile.register("hdf5")
class Hdf5File(VectorFile):
    """Holds one dataset per line, whose key is the line's number from 0. For an empty line, T is 0.

    `sentence_to_index` is a JSON string with the key of each sentence; for a repeated sentence it is the last key.

    A part file holds the bytes of the datasets as hdf5 stores them, then its lines as JSON compressed by zlib, and the
    length of that compressed block in 8 bytes.

    Registered as a `VectorFile` with name `hdf5`.

    # Parameters

    compress : `bool`
        Compress with gzip after shuffling bytes, one layer at a time.
    use_sentence_keys : `bool`
        Use `sentence_key` of the sentence as the key. A repeated sentence is then stored once, an empty line is not
        stored, and `sentence_to_index` is left out.
    forget_sentences : `bool`
        Leave `sentence_to_index` out.
    """

    part_ending = ".arrays"

    def __init__(self, compress: bool = False, use_sentence_keys: bool = False, forget_sentences: bool = False) -> None:
        self._compress = compress
        self._use_sentence_keys = use_sentence_keys
        self._has_index = not (use_sentence_keys or forget_sentences)

    def write_part(self, path: Path, window: Window, arrays: Iterable[tuple[int, np.ndarray]], layout: Layout) -> None:
        """Write a window's arrays as the bytes that hdf5 stores, and its lines."""
        stored: dict[int, tuple[int, list[Chunk]]] = {}
        with atomic_file(path) as partial, partial.open("wb") as file:
            for index, array in arrays:
                chunks = self._chunks(array.astype(layout.dtype), layout)
                stored[index] = file.tell(), [(len(data), mask) for data, mask in chunks]
                file.writelines(data for data, _ in chunks)
            lines = [(text, len(tokens), *stored[i]) for i, (text, tokens) in enumerate(window.sentences)]
            packed = zlib.compress(json.dumps([window.start, lines]).encode())
            file.write(packed + len(packed).to_bytes(8, "little"))

    def join(self, parts: Path, target: Path, layout: Layout, progress: bool = True) -> None:
        """Create a file with all datasets and move the bytes of the parts to where hdf5 expects them."""

        def lay_out(path: Path, add: Callable[[Pieces], None]) -> None:
            with self._new_file(path) as (file, key_of):
                # The vectors are allocated after all metadata. They are then holes of whole blocks, which take no room
                # on the disk.
                for part in sorted(parts.iterdir()):
                    for number, line in _read_lines(part):
                        if (key := key_of(number, line.text)) is not None:
                            self._make_dataset(file, key, layout.shape_of(line.tokens), layout)
                for part in sorted(parts.iterdir()):
                    pieces: Pieces = []
                    for number, line in _read_lines(part):
                        if (key := self._key(number, line.text)) and line.chunks:
                            pieces += _allocate(file[key], line)
                    add(pieces)

        join_parts(parts, target, lay_out, progress)

    def link(self, path: Path, lines: Iterable[tuple[int, str, str]]) -> None:
        """Write a file of links, which reads as if it held the datasets of other files.

        `lines` yields the number and the text of each line, and the name of the file with its dataset, which is in the
        same folder.
        """
        with self._new_file(path) as (file, key_of):
            for number, text, name in lines:
                if (key := key_of(number, text)) is not None:
                    file[key] = h5py.ExternalLink(name, key)

    @contextmanager
    def _new_file(self, path: Path) -> Iterator[tuple[h5py.File, KeyOf]]:
        """Yield a new file, and a function that adds a line to the index and returns the line's key if it is new."""
        with _Disk(path, "w+") as disk, tempfile.TemporaryFile(dir=path.parent) as index:

            def key_of(number: int, text: str) -> Optional[str]:
                disk.check()
                key = self._key(number, text)
                if text and self._has_index:  # texts may repeat: JSON readers take the last of equal keys
                    index.write(f"{', ' if index.tell() else '{'}{json.dumps(text)}: {json.dumps(key)}".encode())
                # `key in file` would open the file that a link leads to.
                return key if key and not file.id.links.exists(key.encode()) else None

            with h5py.File(disk, "w") as file:
                yield file, key_of
                position = _make_index(file, index) if self._has_index else None
            if position is not None:
                disk.seek(position)
                shutil.copyfileobj(index, disk)
            disk.check()

    def _key(self, number: int, text: str) -> str:
        return sentence_key(text) if self._use_sentence_keys else str(number)

    def _make_dataset(self, file: h5py.File, key: str, shape: tuple[int, ...], layout: Layout) -> None:
        """Create a dataset whose storage is allocated later, without being filled with zeros."""
        storage = h5p.create(h5p.DATASET_CREATE)
        storage.set_fill_time(h5d.FILL_TIME_NEVER)
        options = self._storage(shape, layout)
        dataset = file.create_dataset(key, shape=shape, dtype=layout.dtype, dcpl=storage, **options)
        for chunk in dataset.iter_chunks() if options else ():
            # A placeholder, so that the metadata of the chunk is written now.
            dataset.id.write_direct_chunk(tuple(rows.start for rows in chunk), b"\0")

    def _chunks(self, array: np.ndarray, layout: Layout) -> list[tuple[bytes, int]]:
        """Return the bytes and the filter mask of each chunk that hdf5 stores of an array."""
        options = self._storage(array.shape, layout)
        if not options:
            return [(array.tobytes(), 0)] if array.size else []
        with h5py.File(BytesIO(), "w") as file:
            dataset = file.create_dataset("array", data=array, **options)
            places = [tuple(rows.start for rows in chunk) for chunk in dataset.iter_chunks()]
            return [dataset.id.read_direct_chunk(place)[::-1] for place in places]

    def _storage(self, shape: tuple[int, ...], layout: Layout) -> dict[str, Any]:
        if not self._compress or 0 in shape:
            return {}
        rows = [min(shape[-2], ROWS_IN_CHUNK)] if layout.is_by_token else []
        chunk = (*[1] * layout.is_by_layer, *rows, shape[-1])
        return {"compression": "gzip", "shuffle": True, "chunks": chunk}

    def _to_params(self) -> dict[str, Any]:
        forgets = not (self._has_index or self._use_sentence_keys)
        keys = {"compress": self._compress, "use_sentence_keys": self._use_sentence_keys, "forget_sentences": forgets}
        return {"type": "hdf5", **keys}


def sentence_key(sentence: str) -> str:
    """Return the key of a sentence in a file with sentence keys. `urllib.parse.unquote` turns it back.

    The key is the sentence, except for what hdf5 reads as a path: `/` is written `%2F`, and the sentence `.` is `%2E`.
    So that no two sentences share a key, `%` before two hexadecimal digits is written `%25`.

    >>> sentence_key("and / or")
    'and %2F or'
    """
    if sentence == ".":
        return "%2E"
    return re.sub("%(?=[0-9A-Fa-f]{2})", "%25", sentence).replace("/", "%2F")


class _Disk(FileIO):
    """A file for hdf5 to write to. It keeps the first write error for `check`, because hdf5 could not close the file.

    Zeros after everything written so far are skipped: a hole reads as zeros and takes no room.
    """

    error: Optional[OSError] = None
    _end = 0

    def write(self, data: Any) -> int:
        position, left = self.tell(), memoryview(data).cast("B")
        if position >= self._end and not np.frombuffer(left, np.uint8).any():
            self.seek(position + len(left))
            return len(left)
        try:
            while left and self.error is None:
                left = left[super().write(left) :]
        except OSError as error:
            self.error = error
        self._end = max(self._end, position + len(data))
        return len(data)

    def truncate(self, size: Optional[int] = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = error
            return self.tell()

    def check(self) -> None:
        """Raise the first error."""
        if self.error is not None:
            raise self.error


def _read_lines(part: Path) -> Iterator[tuple[int, PartLine]]:
    """Yield each line of a part with its number."""
    with part.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        size = int.from_bytes(file.read(8), "little")
        file.seek(-8 - size, os.SEEK_END)
        first, lines = json.loads(zlib.decompress(file.read(size)))
    for number, line in enumerate(lines, first):
        yield number, PartLine(*line)


def _allocate(dataset: h5py.Dataset, line: PartLine) -> Pieces:
    """Allocate a dataset's storage and return where its line's chunks belong, or nothing if it was allocated before."""
    start, pieces = line.start, []
    if dataset.id.get_storage_size() > len(line.chunks):
        return []  # a repeated sentence
    if dataset.chunks is None:
        dataset[(0,) * dataset.ndim] = 0  # the first write allocates the whole dataset
        return [(start, dataset.id.get_offset(), line.chunks[0][0])]
    for chunk, (size, mask) in zip(dataset.iter_chunks(), line.chunks, strict=True):
        place = tuple(rows.start for rows in chunk)
        dataset.id.write_direct_chunk(place, bytes(size), mask)
        pieces.append((start, dataset.id.get_chunk_info_by_coord(place).byte_offset, size))
        start += size
    return pieces


def _make_index(file: h5py.File, index: IO[bytes]) -> Optional[int]:
    """Finish the JSON, create a dataset of one string for it, and return where in the file to copy it to."""
    index.write(b"}" if index.tell() else b"{}")
    length = index.tell()
    index.seek(0)
    if length > LONGEST_INDEX:
        logger.warning("'%s' is left out: it would have %d bytes, and hdf5 readers take at most 2 GB", INDEX, length)
        return None
    storage = h5p.create(h5p.DATASET_CREATE)
    storage.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    storage.set_obj_track_times(False)  # equal sentences make an equal file
    string = h5t.py_create(h5py.string_dtype("utf-8", length), logical=True)
    return int(h5d.create(file.id, INDEX.encode(), string, h5s.create_simple((1,)), storage).get_offset())
