"""Vectors in hdf5, laid out as AllenNLP's retired command `allennlp elmo` did (`allennlp/commands/elmo.py` of 0.9)."""

import json
import logging
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable
from io import FileIO
from pathlib import Path
from typing import IO, Any, NamedTuple, Optional, Union

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t

from elmo_plugin.embedding.vector_file import EmbeddedSentence, Layout, VectorFile

logger = logging.getLogger(__name__)

INDEX = "sentence_to_index"
LONGEST_INDEX = 2**31 - 1
"""Bytes of the longest string that NumPy, and so h5py, reads."""
ROWS_IN_CHUNK = 4096
"""Rows that are compressed together; hdf5 allows 4 GB."""


class LinkedSentence(NamedTuple):
    """A line of a corpus, its number from 0, and the name of the file in the same folder that has its dataset."""

    line: int
    text: str
    file: str


Store = Callable[[h5py.File, str, Any], None]


@VectorFile.register("hdf5")
class Hdf5File(VectorFile):
    """A dataset a line, its key the line's number from 0; an empty line's has a T of 0.

    `sentence_to_index` is a JSON string of each sentence's key; of a repeated sentence it says the last one.

    Registered as a `VectorFile` with name `hdf5`.

    # Parameters

    compress : `bool`
        By gzip, bytes shuffled, a layer at a time.
    use_sentence_keys : `bool`
        The key is `sentence_key` of the sentence. Then a repeated sentence is there once, an empty line is not, and
        there is no `sentence_to_index`.
    forget_sentences : `bool`
        Leave `sentence_to_index` out.
    """

    def __init__(self, compress: bool = False, use_sentence_keys: bool = False, forget_sentences: bool = False) -> None:
        self._compress = compress
        self._use_sentence_keys = use_sentence_keys
        self._has_index = not (use_sentence_keys or forget_sentences)

    def write(self, path: Path, sentences: Iterable[EmbeddedSentence], layout: Layout) -> None:
        """Write the arrays of sentences to a new file."""

        def store(file: h5py.File, key: str, sentence: EmbeddedSentence) -> None:
            file.create_dataset(key, data=sentence.vectors, **self._storage(sentence.vectors, layout))

        self._write(path, sentences, store)

    def link(self, path: Path, sentences: Iterable[LinkedSentence]) -> None:
        """Write a file that is read as if it had all datasets of other files, which stay where they are."""

        def store(file: h5py.File, key: str, sentence: LinkedSentence) -> None:
            file[key] = h5py.ExternalLink(sentence.file, key)

        self._write(path, sentences, store)

    def _write(self, path: Path, sentences: Iterable[Union[EmbeddedSentence, LinkedSentence]], store: Store) -> None:
        with _Disk(path, "w+") as disk, tempfile.TemporaryFile(dir=path.parent) as index:
            with h5py.File(disk, "w") as file:
                for sentence in sentences:
                    key = sentence_key(sentence.text) if self._use_sentence_keys else str(sentence.line)
                    if key and not file.id.links.exists(key.encode()):  # `in` would open what a link leads to
                        store(file, key, sentence)
                    if sentence.text and self._has_index:
                        _add_to_index(index, sentence.text, key)
                    disk.check()
                place = _make_room(file, _close_index(index)) if self._has_index else None
            if place is not None:
                disk.seek(place)
                shutil.copyfileobj(index, disk)
            disk.check()

    def _to_params(self) -> dict[str, Any]:
        params = {"type": "hdf5", "compress": self._compress, "use_sentence_keys": self._use_sentence_keys}
        forgets = not (self._has_index or self._use_sentence_keys)
        return {**params, "forget_sentences": True} if forgets else params  # shards without the key stay as they were

    def _storage(self, vectors: np.ndarray, layout: Layout) -> dict[str, Any]:
        if not self._compress or not vectors.size:
            return {}
        rows = [min(vectors.shape[-2], ROWS_IN_CHUNK)] if layout.is_by_token else []
        chunk = (*[1] * layout.is_by_layer, *rows, vectors.shape[-1])
        return {"compression": "gzip", "shuffle": True, "chunks": chunk}


def sentence_key(sentence: str) -> str:
    """The key of a sentence in a file with sentence keys, from which `urllib.parse.unquote` makes the sentence again.

    It is the sentence itself, but for what hdf5 takes for paths: `/` is written `%2F`, the sentence `.` is `%2E`, and
    so that no two sentences share a key, `%` is `%25` where two hexadecimal digits follow.
    """
    if sentence == ".":
        return "%2E"
    return re.sub("%(?=[0-9A-Fa-f]{2})", "%25", sentence).replace("/", "%2F")


class _Disk(FileIO):
    """A file whose writes do not fail, since after that hdf5 could not even close it; `check` says what has failed."""

    error: Optional[OSError] = None

    def write(self, data: Any) -> int:
        left = memoryview(data)
        try:
            while left and self.error is None:
                left = left[super().write(left) :]
        except OSError as error:
            self.error = error
        return len(data)

    def truncate(self, size: Optional[int] = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = error
            return self.tell()

    def check(self) -> None:
        """Raise the first error there was."""
        if self.error is not None:
            raise self.error


def _add_to_index(index: IO[bytes], text: str, key: str) -> None:
    """Go on with a JSON object. A text may come again: readers take the last of equal keys."""
    separator = ", " if index.tell() else "{"
    index.write(f"{separator}{json.dumps(text)}: {json.dumps(key)}".encode())


def _close_index(index: IO[bytes]) -> int:
    """Finish the JSON object and go back to its start; return its length."""
    index.write(b"}" if index.tell() else b"{}")
    length = index.tell()
    index.seek(0)
    return length


def _make_room(file: h5py.File, length: int) -> Optional[int]:
    """Make the dataset of one string, which is as long as the corpus: where in the file it has to be copied to."""
    if length > LONGEST_INDEX:
        logger.warning("going without '%s', which would have %d bytes; readers of hdf5 take 2 GB", INDEX, length)
        return None
    storage = h5p.create(h5p.DATASET_CREATE)
    storage.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    storage.set_obj_track_times(False)  # equal sentences make an equal file
    string = h5t.py_create(h5py.string_dtype("utf-8", length), logical=True)
    return int(h5d.create(file.id, INDEX.encode(), string, h5s.create_simple((1,)), storage).get_offset())
