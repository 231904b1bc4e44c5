"""What a run has embedded so far, so that the next one goes on from there."""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from allennlp.common.checks import ConfigurationError

from elmo_plugin.embedding.corpus import Window
from elmo_plugin.embedding.vector_file import EmbeddedSentence, Layout

RUN, WINDOWS, VECTORS = "run.json", "windows.jsonl", "vectors"
Record = tuple[str, list[str], int]
"""A sentence's text, its tokens, and where its array begins among the vectors."""


class KeptWindow(NamedTuple):
    """The number of a window's first line in the text, and a record for each of its lines."""

    start: int
    records: list[Record]


class Journal:
    """A folder with the arrays of whole windows of a corpus; of a window that a kill broke off nothing counts.

    `vectors` has the arrays one after another, as they were computed; `windows.jsonl` has a line a window, a
    `KeptWindow`, written when its arrays are safe on the disk; `run.json` says what made them.

    # Parameters

    folder : `Path`
        Made if there is none. One process at a time has it, until `close`.
    run : `Mapping[str, Any]`
        All that the arrays depend on but the text: values of JSON.
    layout : `Layout`

    Raises `ConfigurationError` for a folder of another run or of a process that is at work, or that is no such folder
    or damaged. It, and any method that writes, raises `OSError` where the disk takes no more.
    """

    def __init__(self, folder: Path, run: Mapping[str, Any], layout: Layout) -> None:
        self.folder = folder
        self._layout = layout
        folder.mkdir(exist_ok=True)
        self._lock = _lock(folder)
        try:
            self._claim(json.loads(json.dumps(run)))
        except BaseException:
            os.close(self._lock)
            raise

    def add(self, window: Window, arrays: Iterable[tuple[int, np.ndarray]]) -> None:
        """Keep a window, given the place in it and the array of each of its sentences, in any order."""
        starts = {}
        with (self.folder / VECTORS).open("ab") as vectors:
            for place, array in arrays:
                starts[place] = vectors.tell()
                vectors.write(array.astype(self._layout.dtype).tobytes())
            _sync(vectors)
        kept = KeptWindow(window.start, [(*sentence, starts[place]) for place, sentence in enumerate(window.sentences)])
        with (self.folder / WINDOWS).open("ab") as windows:
            windows.write(f"{json.dumps(kept)}\n".encode())
            _sync(windows)

    def windows(self) -> Iterator[KeptWindow]:
        """Each window that was there at first."""
        with (self.folder / WINDOWS).open("rb") as windows:
            yield from map(_kept, islice(windows, self.windows_kept))

    def sentences(self) -> Iterator[EmbeddedSentence]:
        """All that is kept, in the order of the corpus."""
        with (self.folder / WINDOWS).open("rb") as windows, (self.folder / VECTORS).open("rb") as vectors:
            for window in map(_kept, windows):
                for line, (text, tokens, place) in enumerate(window.records, window.start):
                    vectors.seek(place)
                    array = np.frombuffer(vectors.read(self._layout.size(len(tokens))), self._layout.dtype)
                    yield EmbeddedSentence(line, text, tokens, array.reshape(self._layout.shape))

    def remove(self) -> None:
        """Take the folder away: its arrays are in their file."""
        shutil.rmtree(self.folder)

    def close(self) -> None:
        """Let another process have it. A folder that keeps nothing goes."""
        if self.folder.exists() and not (self.folder / WINDOWS).stat().st_size:
            self.remove()
        os.close(self._lock)

    def _claim(self, run: dict[str, Any]) -> None:
        """Take what is kept, if the run that it is of is this one; if nothing is, write down which run this is."""
        path, partial = self.folder / RUN, self.folder / f"{RUN}.partial"
        if not path.exists() and set(self.folder.iterdir()) - {partial}:
            raise ConfigurationError(f"'{self.folder}' is in the way: wanted a run that was broken off, or nothing")
        self.windows_kept = sum(1 for _ in self._whole_lines())
        if self.windows_kept:
            self._check(path, run)
        else:
            partial.write_text(json.dumps(run), encoding="utf-8")
            partial.replace(path)
        self._cut_back()

    def _check(self, path: Path, run: dict[str, Any]) -> None:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise self._damaged(RUN) from error
        for key in run:
            if found.get(key) != run[key]:
                raise ConfigurationError(
                    f"'{self.folder}' was begun with another '{key}': found {found.get(key)}, wanted {run[key]}; "
                    "name another output, or delete it"
                )

    def _whole_lines(self) -> Iterator[bytes]:
        """A line for each window that is kept whole."""
        if (self.folder / WINDOWS).exists():
            with (self.folder / WINDOWS).open("rb") as windows:
                yield from (line for line in windows if line.endswith(b"\n"))

    def _cut_back(self) -> None:
        """Cut off what belongs to no whole window."""
        length, last = 0, b"[0, []]"
        for last in self._whole_lines():
            length += len(last)
        try:
            records = _kept(last).records
            end = max((place + self._layout.size(len(tokens)) for _, tokens, place in records), default=0)
        except ValueError as error:
            raise self._damaged(WINDOWS) from error
        for name, size in ((WINDOWS, length), (VECTORS, end)):
            with (self.folder / name).open("ab") as file:
                if file.tell() < size:
                    raise self._damaged(name)
                file.truncate(size)

    def _damaged(self, name: str) -> ConfigurationError:
        return ConfigurationError(f"'{self.folder / name}' is damaged; delete '{self.folder}' to begin anew")


def _kept(line: bytes) -> KeptWindow:
    """Raises `ValueError` for what is none."""
    return KeptWindow(*json.loads(line))


def _lock(folder: Path) -> int:
    """An open folder that no other process can open so; a kill closes it too."""
    import fcntl  # not on every system

    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(opened)
        raise ConfigurationError(f"another process is at work in '{folder}'") from error
    return opened


def _sync(file: IO[bytes]) -> None:
    """Have it on the disk, not only on its way."""
    file.flush()
    os.fsync(file.fileno())
