"""Embed a corpus and write the vectors to disk: memory does not grow with the corpus, and a killed run is resumed.

For the output `vectors.hdf5`, the folder `vectors.hdf5.part` holds an unfinished run:

    parts/000000000000-8a9ad57d0f3e6f2c.hdf5 …   the vectors of each window that is finished
    run.json                                     everything that the vectors depend on except the text
    joining                                      an empty file, once all parts are complete
    lock                                         an empty file: locks on its bytes are held while a process works
    0-7d9f….partial                              what process 0 is writing, before it gets its name

A part is named by its window's position, its text and `run.json`, so it does not matter which process wrote it. Several
processes share the folder; each writes every n-th window. The one that finds all parts complete joins them, and writes
the manifest `vectors.hdf5.json`, by which a process that starts later knows that the output is complete.

Some shared folders have locks that other machines do not see. Then two processes may write the same part or join the
parts at the same time. Each writes to a file of its own, so the output is that of one of them, and the other may fail.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, Optional
from uuid import uuid4

import numpy as np
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError

from elmo_plugin.common import atomic_file, check_made_with
from elmo_plugin.embedding import corpus as corpora
from elmo_plugin.embedding.corpus import Corpus, Window
from elmo_plugin.embedding.embedder import Embedder, mean
from elmo_plugin.embedding.vector_files import Layout, VectorFile
from elmo_plugin.text import TOKENS_PER_BATCH

VERSION = 1
"""The version of the folder of an unfinished output, and of the manifest."""
PART = ".part"
"""The ending of the folder's name."""
RUN, PARTS, JOINING, LOCK, PARTIAL = "run.json", "parts", "joining", "lock", ".partial"
OTHER_OUTPUT = "name another output, or delete it"
WHOLE_FOLDER = 2**31
"""The byte of `lock` that is locked while the folder itself is changed. Lower bytes stand for processes."""


class Counts(NamedTuple):
    """The numbers of sentences, empty ones included, and of their tokens, in the windows of a process."""

    sentences: int
    tokens: int


class Share(NamedTuple):
    """The share of one of `size` processes: every `size`th window, starting with window number `rank`."""

    rank: int = 0
    size: int = 1


WHOLE = Share()


class CorpusEmbedder:
    """Embeds a text window by window, in batches of similar length, and writes the vectors in the order of the text.

    # Parameters

    embedder : `Embedder`
    pool : `bool`
        Write one vector per sentence and layer: the mean over its tokens, or zeros if it has none.
    half : `bool`
        Write 16-bit instead of 32-bit numbers.
    tokens_per_batch, batch_size : `int`, `Optional[int]`
        As in `length_batches`.

    ```python
    work = CorpusEmbedder(elmo_plugin.load("english-tiny"), half=True)
    work.embed(Corpus(Path("sentences.txt"), WhitespaceTokenizer()), Path("vectors.hdf5"), Hdf5File())
    ```
    """

    def __init__(
        self,
        embedder: Embedder,
        pool: bool = False,
        half: bool = False,
        tokens_per_batch: int = TOKENS_PER_BATCH,
        batch_size: Optional[int] = None,
    ) -> None:
        self._embedder = embedder
        self._pool = pool
        shape = tuple(size for size in embedder.shape if size != -1 or not pool)
        self.layout = Layout(shape, "float16" if half else "float32")
        self._tokens_per_batch = tokens_per_batch
        self._batch_size = batch_size

    def embed(
        self, corpus: Corpus, target: Path, file: VectorFile, share: Share = WHOLE, replace: bool = False
    ) -> Counts:
        """Write the vectors of a corpus to a new output; with `replace`, an existing one is replaced.

        A resumed run embeds the windows that have no part yet, with any number of processes. A window's vectors do not
        depend on where a run starts or on other processes, so the output is the same as that of one uninterrupted run.
        At the end the parts are copied into one file (Parquet keeps them), so the disk holds the vectors twice. A
        process without further work waits while another one copies.

        Raises `ConfigurationError` if the target exists, for an unfinished output of another run or another text, for a
        text that cannot be read, if the disk is full, and if several processes are to read standard input or lines.
        """
        if share.size > 1 and not corpus.has_only_files:
            raise ConfigurationError(f"expected files that each of {share.size} processes can read, got another input")
        manifest = target.with_name(f"{target.name}.json")
        is_begun_by_others = share.size > 1 and manifest.exists()
        if not replace and not is_begun_by_others:
            reject_existing(target)
        run = {**self.run(), "file": file.to_params().as_dict(quiet=True), "tokenizer": type(corpus.tokenizer).__name__}
        run = json.loads(json.dumps(run))  # to compare it with what is read from a file, where tuples are lists
        folder = target.with_name(f"{target.name}{PART}")
        with _part_folder(folder, run, share) as (lock, partial):
            is_complete = is_begun_by_others and target.exists()
            counts, names = self._write_parts(corpus, folder, file, share, run, partial, is_complete)
            run["text"] = blake2b(json.dumps(names).encode(), digest_size=8).hexdigest()
            if is_complete:
                check_made_with(str(target), manifest, run, OTHER_OUTPUT)
                shutil.rmtree(folder / PARTS)
                return counts
            with _locked(lock, WHOLE_FOLDER), _resumable(folder):  # waits for a process that joins
                found, expected = set(_part_names(folder)), set(names)
                if not found <= expected or (share.size == 1 and found < expected):
                    raise ConfigurationError(f"'{folder}': another run, perhaps on another machine, has changed it")
                if found == expected:  # or other processes are at work, or one has joined them
                    if share.size > 1:
                        with atomic_file(manifest, partial):
                            partial.write_text(json.dumps(run), encoding="utf-8")
                    (folder / JOINING).touch()
                    paths = [folder / PARTS / name for name in names]
                    bar = Tqdm.tqdm(paths, desc="writing", unit=" parts", disable=share.rank > 0)
                    file.join(bar, target, partial, self.layout)
                    shutil.rmtree(folder / PARTS, ignore_errors=True)
        return counts

    def _write_parts(
        self,
        corpus: Corpus,
        folder: Path,
        file: VectorFile,
        share: Share,
        run: Mapping[str, Any],
        partial: Path,
        is_complete: bool,
    ) -> tuple[Counts, list[str]]:
        """Write the part of each window of a share that has none. Return the counts, and the names of all parts."""
        kept = {name.partition("-")[0]: name for name in _part_names(folder)}
        sentences = tokens = 0
        names: list[str] = []
        with Tqdm.tqdm(desc="embedding", unit=" tokens", unit_scale=True, disable=share.rank > 0) as bar:
            for number, window in enumerate(corpus.windows()):
                name = f"{window.name(run)}{file.ending}"
                names.append(name)
                found = kept.pop(name.partition("-")[0], None)
                if found not in (None, name):
                    key = f"text from line {window.start + 1}"
                    check_made_with(str(folder), {key: found}, {key: name}, OTHER_OUTPUT)
                if number % share.size != share.rank:
                    continue
                sentences += len(window.sentences)
                tokens += sum(len(sentence.tokens) for sentence in window.sentences)
                share_read = corpus.share_read()
                bar.total = round(tokens / share_read) if share_read else None  # an estimate until the text is read
                if found or is_complete:
                    bar.initial = bar.n = tokens  # so that the bar shows the speed of this run
                    continue
                with _resumable(folder), atomic_file(folder / PARTS / name, partial):
                    file.write_part(partial, window, self._arrays(window, bar), self.layout)
            bar.total = tokens
        if kept:
            windows = len(names) + len(kept)
            check_made_with(str(folder), {"windows": windows}, {"windows": len(names)}, OTHER_OUTPUT)
        return Counts(sentences, tokens), names

    def _arrays(self, window: Window, bar: Any) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the index and the array of each sentence of a window."""
        # The vector of a cached word depends in its last bits on the words that were computed in the same batch.
        self._embedder.elmo.bilm.word_cache.clear()
        sentences = [sentence.tokens for sentence in window.sentences]
        half = self.layout.dtype == "float16" and not self._pool
        for index, array in self._embedder.by_length(sentences, self._tokens_per_batch, self._batch_size, half):
            yield index, mean(array) if self._pool else array
            bar.update(len(sentences[index]))

    def run(self) -> dict[str, Any]:
        """Return everything that the arrays depend on except the text, as JSON values."""
        return {
            "version": VERSION,
            **self._embedder.identity(),
            "shape": list(self.layout.shape),
            "type of numbers": self.layout.dtype,
            "tokens per batch": self._tokens_per_batch,
            "batch size": self._batch_size,
            "characters in a window": corpora.CHARACTERS_IN_WINDOW,
        }


def reject_existing(output: Path) -> None:
    """Raise `ConfigurationError` if an output exists, and remove the folder that a run killed at its end left."""
    if output.exists():
        folder = Path(f"{output}{PART}")
        left = {path.name for path in folder.glob("*") if path.suffix != PARTIAL}
        if JOINING in left or left <= {RUN, LOCK}:
            shutil.rmtree(folder, ignore_errors=True)
        raise ConfigurationError(f"'{output}' exists already; {OTHER_OUTPUT}")


@contextmanager
def _part_folder(folder: Path, run: Mapping[str, Any], share: Share) -> Iterator[tuple[int, Path]]:
    """Make the folder of a run, or check that it belongs to this run.

    Yield the open lock file, and the path of a file that no other process writes.

    Raises `ConfigurationError` for the parts of another run, for a folder in which the same process of another run is
    at work, and for a folder with other content. At the end the folder of a complete output is removed, and so is one
    without parts if this is the only process.
    """
    import fcntl  # does not exist on Windows

    path = folder / RUN
    partial = folder / f"{share.rank}-{uuid4().hex}{PARTIAL}"
    try:
        folder.mkdir(exist_ok=True)
        others = {file.name for file in folder.iterdir() if file.suffix != PARTIAL} - {JOINING, LOCK}
        if others and not path.exists():
            raise ConfigurationError(f"'{folder}': expected the folder of an unfinished output, got other files")
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise ConfigurationError(f"'{folder}' cannot be made: {error}") from error
    is_ours = False
    try:
        try:
            # Locks of byte ranges also work on network file systems, and end with the process.
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, share.rank)
        except (BlockingIOError, PermissionError) as error:
            raise ConfigurationError(f"'{folder}': another process is at work in this folder") from error
        for left in folder.glob(f"{share.rank}-*{PARTIAL}"):
            left.unlink(missing_ok=True)
        with _locked(lock, WHOLE_FOLDER):
            if _part_names(folder):
                check_made_with(str(folder), path, run, OTHER_OUTPUT)
            else:
                with atomic_file(path, partial):
                    partial.write_text(json.dumps(run), encoding="utf-8")
                (folder / PARTS).mkdir(exist_ok=True)
        is_ours = True
        yield lock, partial
    finally:
        os.close(lock)
        if is_ours and not _part_names(folder) and (share.size == 1 or not (folder / PARTS).exists()):
            # Another process may have removed it or, on NFS, have the lock open, which then cannot be removed yet.
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(lock: int, byte: int) -> Iterator[None]:
    """Hold the lock of one byte, after waiting for it."""
    import fcntl

    fcntl.lockf(lock, fcntl.LOCK_EX, 1, byte)
    try:
        yield
    finally:
        fcntl.lockf(lock, fcntl.LOCK_UN, 1, byte)


def _part_names(folder: Path) -> list[str]:
    """Return the names of the finished parts, in the order of the text."""
    parts = folder / PARTS
    return sorted(path.name for path in parts.iterdir()) if parts.exists() else []


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Turn a disk error into a `ConfigurationError` that names the output and says how to resume the run."""
    try:
        yield
    except (ConfigurationError, OSError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        left = "no part is finished, so the same command begins again"
        if _part_names(folder):
            left = f"finished parts stay in '{folder}', and the same command resumes the run"
        raise ConfigurationError(f"'{str(folder).removesuffix(PART)}' cannot be written: {cause}; {left}") from error
