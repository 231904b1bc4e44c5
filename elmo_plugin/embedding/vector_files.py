"""The formats that vectors are written in: hdf5, npz and Parquet."""

import json
import os
import re
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from io import FileIO
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Optional

import h5py
import numpy as np
from allennlp.common import Registrable
from more_itertools import constrained_batches

from elmo_plugin.common import atomic_file, extra
from elmo_plugin.embedding.corpus import Window
from elmo_plugin.text import BOUNDARIES

INDEX = "sentence_to_index"
ROWS_IN_CHUNK = 4096
"""Rows that hdf5 compresses together. It limits a chunk to 4 GB."""
TOKENS_IN_GROUP = 8192
"""Tokens, sentence boundaries included, of the Parquet rows that are written together."""

Arrays = Iterable[tuple[int, np.ndarray]]
"""The index of a sentence in its window and its array, each sentence once and in any order."""


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


class VectorFile(ABC, Registrable):
    """A format for the vectors of a corpus. The vectors of each window are written to a part, then parts are joined.

    A format of your own writes both methods, and is registered under the ending of its outputs. An `OSError` while it
    writes becomes an error that names the output and says how to resume the run; any other mistake of the user is a
    `ConfigurationError`, `'key': expected X, got Y`. A format with keys is a dataclass, or overrides `_to_params` and
    returns them, because a run is resumed only with the same ones. See docs/extend.md.
    """

    ending: ClassVar[str]
    """The ending of the names of parts."""
    reading: ClassVar[Optional[str]] = None
    """Python that shows the first vectors of an output, with `{}` for its path in double quotes."""
    joins_while_embedding: ClassVar[bool] = False
    """Whether `join` may begin while later parts are not written yet. It then reads all parts, one after the other."""

    @abstractmethod
    def write_part(self, path: Path, window: Window, arrays: Arrays, layout: Layout) -> None:
        """Write a window's arrays to a new file. Equal windows make equal files."""

    @abstractmethod
    def join(self, parts: Iterable[Path], target: Path, temporary: Path, layout: Layout) -> None:
        """Join the parts, given in the order of the text, into `target`, which appears when it is complete.

        `temporary` is the path of an unfinished file, in the same file system.
        """

    def _to_params(self) -> dict[str, Any]:
        return {"type": self.ending.removeprefix("."), **(vars(self) if is_dataclass(self) else {})}


@VectorFile.register("hdf5")
@dataclass
class Hdf5File(VectorFile):
    """Holds one dataset per sentence, in the layout of AllenNLP's retired command `allennlp elmo`.

    The key of a dataset is the number of its line, counted from 0, or `sentence_key` of its id; h5py iterates over the
    keys in the order of the text. For an empty line, T is 0. `sentence_to_index` is a JSON string with the key of each
    sentence; for a repeated sentence it is the last key. It is in memory while the parts are joined.

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

    ending = ".hdf5"
    joins_while_embedding = True
    reading = "import h5py; print(next(iter(h5py.File({}).items()), None))"

    compress: bool = False
    use_sentence_keys: bool = False
    forget_sentences: bool = False

    def write_part(self, path: Path, window: Window, arrays: Arrays, layout: Layout) -> None:
        """Write a window's arrays, and the text and the key of each line."""
        keys = list(map(sentence_key, window.texts if self.use_sentence_keys else window.keys))
        with _new_hdf5(path) as (file, disk):
            for index, array in arrays:
                if self._is_new(keys[index], file):
                    data = array.astype(layout.dtype)
                    file.create_dataset(keys[index], data=data, **self._storage(data.shape, layout))
                disk.check()
            file[INDEX] = [json.dumps([*zip(window.texts, keys, strict=True)])]

    def join(self, parts: Iterable[Path], target: Path, temporary: Path, layout: Layout) -> None:
        """Copy the datasets of all parts, as they are stored, into one file."""
        indices: list[str] = []
        with atomic_file(target, temporary) as partial, _new_hdf5(partial) as (file, disk):
            for path in parts:
                with h5py.File(path, locking=False) as part:
                    lines = json.loads(part[INDEX][0])
                    for _, key in lines:
                        if self._is_new(key, file):
                            part.copy(key, file, name=key)  # without the name, h5py opens the dataset to find it
                        disk.check()
                    indices.append(json.dumps({text: key for text, key in lines if text})[1:-1])
                os.fsync(disk.fileno())  # while other processes embed, so that the end has less to wait for
            if not (self.use_sentence_keys or self.forget_sentences):
                # Texts may repeat: JSON readers take the last of equal keys.
                file[INDEX] = [f"{{{', '.join(filter(None, indices))}}}"]

    def _is_new(self, key: str, file: h5py.File) -> bool:
        """Return whether a key gets a dataset: numbers and ids are never empty or repeated, but sentences may be."""
        return not self.use_sentence_keys or (key != "" and key not in file)

    def _storage(self, shape: tuple[int, ...], layout: Layout) -> dict[str, Any]:
        if not self.compress or 0 in shape:
            return {}
        rows = [min(shape[-2], ROWS_IN_CHUNK)] if layout.is_by_token else []
        return {"compression": "gzip", "shuffle": True, "chunks": (*[1] * layout.is_by_layer, *rows, shape[-1])}


def sentence_key(text: str) -> str:
    """Return the key of a sentence or an id in an hdf5 file. `urllib.parse.unquote` turns it back.

    The key is the text, except for what hdf5 reads as a path: `/` is written `%2F`, and the text `.` is `%2E`. So that
    no two texts share a key, `%` before two hexadecimal digits is written `%25`, and `sentence_to_index`, the name of
    the index, is `%73entence_to_index`.

    >>> sentence_key("and / or")
    'and %2F or'
    """
    if text in (".", INDEX):
        return f"%{ord(text[0]):X}{text[1:]}"
    return re.sub("%(?=[0-9A-Fa-f]{2})", "%25", text).replace("/", "%2F")


class _Disk(FileIO):
    """A file for hdf5 to write to. It keeps the first error, because after an error hdf5 could not close the file."""

    error: Optional[OSError] = None

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while left and self.error is None:
                left = left[super().write(left) :]
        except OSError as error:
            self.error = error
        return size

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


@contextmanager
def _new_hdf5(path: Path) -> Iterator[tuple[h5py.File, _Disk]]:
    """Yield a new hdf5 file, and what it writes to."""
    with _Disk(path, "w+") as disk:
        with h5py.File(disk, "w", track_order=True) as file:
            yield file, disk
        disk.check()


@VectorFile.register("npz")
@dataclass
class NpzFile(VectorFile):
    """Holds one array per sentence, for `numpy.load`, named by its id or by its line's number, counted from 0.

    For an empty line, T is 0. The archive's directory is kept in memory while it is written: a few hundred bytes per
    line.

    Registered as a `VectorFile` with name `npz`.

    # Parameters

    compress : `bool`
        Compress as `numpy.savez_compressed` does.
    """

    ending = ".npz"
    joins_while_embedding = True
    reading = "import numpy; print(next(iter(numpy.load({}).items()), None))"

    compress: bool = False

    def write_part(self, path: Path, window: Window, arrays: Arrays, layout: Layout) -> None:
        """Write a window's arrays to an archive, whose directory is in the order of the text."""
        position = {f"{key}.npy": index for index, key in enumerate(window.keys)}
        names = list(position)
        with zipfile.ZipFile(path, "w") as archive:
            for index, array in arrays:
                entry = zipfile.ZipInfo(names[index])  # undated: equal windows make equal files
                entry.compress_type = zipfile.ZIP_DEFLATED if self.compress else zipfile.ZIP_STORED
                with archive.open(entry, "w", force_zip64=True) as file:
                    np.save(file, array.astype(layout.dtype), allow_pickle=False)
            archive.filelist.sort(key=lambda entry: position[entry.filename])

    def join(self, parts: Iterable[Path], target: Path, temporary: Path, layout: Layout) -> None:
        """Copy the entries of all parts into one archive with one directory."""
        entries: list[zipfile.ZipInfo] = []
        with atomic_file(target, temporary) as partial, partial.open("wb") as joined:
            for path in parts:
                with path.open("rb") as part, zipfile.ZipFile(part) as archive:
                    for entry in archive.infolist():
                        entry.header_offset += joined.tell()
                        entries.append(entry)
                    size = archive.start_dir
                    part.seek(0)
                    while size:
                        size -= joined.write(part.read(min(size, 2**20)))
                os.fsync(joined.fileno())  # while other processes embed, so that the end has less to wait for
            with zipfile.ZipFile(joined, "w") as archive:  # on closing, it writes its directory here
                archive.filelist = entries


@VectorFile.register("parquet")
@dataclass
class ParquetFile(VectorFile):
    """Holds one row per sentence, for Arrow, pandas, Polars, DuckDB and Spark.

    The columns are `line`, its number from 0, `id` if there are ids, `sentence`, `tokens`, and vectors. With all
    layers, each layer has a column, `layer_0` …; with a mix of them, the column is `vectors`. A cell holds a list with
    one vector per token, or one vector if they are pooled.

    The output is a folder of Parquet files, the parts themselves, in the order of the text. Most readers take such a
    folder as one table. The vectors of a window are in memory while its part is written: 600 MB for all layers of the
    original size.

    Registered as a `VectorFile` with name `parquet`. Raises `ConfigurationError` without pyarrow, which
    `elmo-plugin[parquet]` installs.

    # Parameters

    compress : `bool`
        Compress with Zstandard.
    """

    ending = ".parquet"
    reading = "import pyarrow.parquet as parquet; print(parquet.read_table({}).schema)"

    compress: bool = False

    def __post_init__(self) -> None:
        with extra("parquet"):
            import_module("pyarrow")

    def write_part(self, path: Path, window: Window, arrays: Arrays, layout: Layout) -> None:
        """Write a window's rows in their order, in groups of rows."""
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        vector = arrow.list_(arrow.from_numpy_dtype(np.dtype(layout.dtype)), layout.shape[-1])
        names = [f"layer_{layer}" for layer in range(layout.shape[0])] if layout.is_by_layer else ["vectors"]
        schema = arrow.schema(
            {
                "line": arrow.int64(),
                **({"id": arrow.string()} if window.ids else {}),
                "sentence": arrow.string(),
                "tokens": arrow.list_(arrow.string()),
                **dict.fromkeys(names, arrow.list_(vector) if layout.is_by_token else vector),
            }
        )
        by_index = {index: array.astype(layout.dtype) for index, array in arrays}
        rows: list[dict[str, Any]] = []
        for index, (key, sentence) in enumerate(zip(window.keys, window.sentences, strict=True)):
            layers = by_index[index] if layout.is_by_layer else [by_index[index]]  # (T, D) or (D,) each
            cells = [list(layer) if layout.is_by_token else layer for layer in layers]
            rows.append(
                {
                    "line": window.start + index,
                    "id": key,
                    "sentence": sentence.text,
                    "tokens": sentence.tokens,
                    **dict(zip(names, cells, strict=True)),
                }
            )
        groups = constrained_batches(
            rows, TOKENS_IN_GROUP, get_len=lambda row: len(row["tokens"]) + BOUNDARIES, strict=False
        )
        with parquet.ParquetWriter(
            path, schema, compression="zstd" if self.compress else "none", use_dictionary=False
        ) as writer:
            for group in groups:
                writer.write_table(arrow.Table.from_pylist(group, schema))

    def join(self, parts: Iterable[Path], target: Path, temporary: Path, layout: Layout) -> None:
        """Rename the folder of the parts."""
        os.replace(next(iter(parts)).parent, target)
