"""Embed a corpus and write the vectors to disk: memory does not grow with the corpus, and a killed run is resumed.

For the output `vectors.hdf5`, the folder `vectors.hdf5.part` holds an unfinished run:

    parts/000000000000-8a9ad57d0f3e6f2c.hdf5 …   the vectors of each window that is finished
    run.json                                     everything that the vectors depend on except the text
    joining                                      an empty file, once all parts are complete
    lock                                         an empty file, which is locked while a run is at work
    7d9f….partial                                what a process is writing, before it gets its name

This process reads the text and joins the parts. It embeds the windows alone, or other processes do. A part is named by
its window's position, its text and `run.json`, so it does not matter which process wrote it.

Some shared folders have locks that other machines do not see. Then two runs may write the same part or join the parts
at the same time. Each writes to a file of its own, so the output is that of one of them, and the other may fail.
"""

import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, Optional
from uuid import uuid4

import torch
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError
from more_itertools import peekable
from torch import multiprocessing

from elmo_plugin.common import LOCK, NotWritten, atomic_file, check_made_with, lock_folder
from elmo_plugin.embedding import corpus as corpora
from elmo_plugin.embedding.corpus import Corpus, Window
from elmo_plugin.embedding.embedder import Embedder, mean
from elmo_plugin.embedding.vector_files import Arrays, Layout, VectorFile
from elmo_plugin.text import TOKENS_PER_BATCH

VERSION = 1
"""The version of the folder of an unfinished output, and of the manifest."""
PART = ".part"
"""The ending of the folder's name."""
RUN, PARTS, JOINING, PARTIAL = "run.json", "parts", "joining", ".partial"
OTHER_OUTPUT = "name another output, or delete it"

Task = tuple[Path, Window]
"""The path of a part, and the window whose vectors it gets."""


class Counts(NamedTuple):
    """The numbers of sentences, empty ones included, and of their tokens."""

    sentences: int
    tokens: int


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
        shape = tuple(size for size in embedder.shape if size != -1 or not pool)
        self.layout = Layout(shape, "float16" if half else "float32")
        self._tokens_per_batch = tokens_per_batch
        self._batch_size = batch_size

    def embed(
        self, corpus: Corpus, target: Path, file: VectorFile, processes: Optional[int] = 1, replace: bool = False
    ) -> Counts:
        """Write the vectors of a corpus to a new output; with `replace`, an existing one is replaced.

        A resumed run embeds the windows that have no part yet, with any number of processes. A window's vectors do not
        depend on where a run starts or on other processes, so the output is the same as that of one uninterrupted run.
        Parts are copied into one file meanwhile (Parquet keeps them), so the disk holds the vectors twice.

        With `processes` of 1, this process embeds with all threads of PyTorch. With more, as many others embed, each
        with one thread; they share the memory of the weights. `None` stands for the number of PyTorch's threads. A
        process that would have no window is not started.

        Raises `ConfigurationError` if the target exists, for an unfinished output of another run or another text, for a
        text that cannot be read, if the disk is full, and if another process is killed.
        """
        device = self._embedder.device.type
        if device != "cpu" and (processes or 1) > 1:
            raise ConfigurationError(f"'processes': expected 1 for a biLM on '{device}', got {processes}")
        if not replace:
            reject_existing(target)
        run = {
            "version": VERSION,
            **self._embedder.identity(),
            "shape": self.layout.shape,
            "type of numbers": self.layout.dtype,
            "tokens per batch": self._tokens_per_batch,
            "batch size": self._batch_size,
            "characters in a window": corpora.CHARACTERS_IN_WINDOW,
            "file": file.to_params().as_dict(quiet=True),
            "tokenizer": type(corpus.tokenizer).__name__,
        }  # everything that the output depends on except the text
        run = json.loads(json.dumps(run))  # to compare it with what is read from a file, where tuples are lists
        folder = target.with_name(f"{target.name}{PART}")
        finished: Counter[str] = Counter()
        with _resumable(folder), _part_folder(folder, run):
            with closing(self._parts(corpus, folder, file, run, processes, finished)) as paths:
                parts = peekable(paths)
                parts.peek()  # starts the processes, which would inherit what `join` opens
                file.join(parts, target, _partial(folder), self.layout)
            shutil.rmtree(folder / PARTS, ignore_errors=True)
        return Counts(finished["sentences"], finished["tokens"])

    def _parts(
        self,
        corpus: Corpus,
        folder: Path,
        file: VectorFile,
        run: Mapping[str, Any],
        processes: Optional[int],
        finished: Counter[str],
    ) -> Generator[Path, None, None]:
        """Write the part of each window that has none, and yield the paths of all parts in the order of the text.

        The counts of the parts are added to `finished`. For a file that joins them meanwhile, at most one part is
        yielded after each that was written, so that no process has to wait for its next window. For other files the
        first part is yielded when all are complete.
        """
        kept = {name.partition("-")[0]: name for name in _part_names(folder)}
        names: list[str] = []
        joined = 0

        def missing() -> Iterator[Task]:
            for window in corpus.windows():
                name = f"{window.name(run)}{file.ending}"
                names.append(name)
                found = kept.pop(name.partition("-")[0], None)
                if found is None:
                    yield folder / PARTS / name, window
                else:
                    key = f"text from line {window.start + 1}"
                    check_made_with(str(folder), {key: found}, {key: name}, OTHER_OUTPUT)
                    finished.update(_count(window))
                    bar.initial = bar.n = finished["tokens"]  # so that the bar shows the speed of this run

        def show(some: Counter[str]) -> None:
            sentences = corpus.estimated_sentences()
            bar.total = round(some["tokens"] / some["sentences"] * sentences) if sentences else None

        most = processes or (torch.get_num_threads() if self._embedder.device.type == "cpu" else 1)
        with Tqdm.tqdm(desc="embedding", unit=" tokens", unit_scale=True) as bar:
            tasks = peekable(missing())
            first = tasks[:most]  # so that no process is started that would have nothing to do
            # Here, so that only one process says what language the text is in.
            self._embedder.language_check.read(text for _, window in first for text in window.texts)
            if len(first) > 1:
                results = unordered(partial(self._write_part, file), tasks, len(first))
            else:
                results = (self._write_part(file, task, bar) for task in tasks)
                show(sum((_count(window) for _, window in first), finished))
            with closing(results):
                for counts in results:
                    finished.update(counts)
                    bar.update(finished["tokens"] - bar.n)
                    show(finished)
                    path = folder / PARTS / names[joined]
                    if file.joins_while_embedding and joined + 1 < len(names) and path.exists():
                        joined += 1  # the last part is joined when all are complete
                        yield path
            bar.total = bar.n
            if _part_names(folder) != names:
                raise ConfigurationError(
                    f"'{folder}': another run, perhaps on another machine or of a longer text, has changed it; "
                    f"{OTHER_OUTPUT}"
                )
        (folder / JOINING).touch()
        yield from Tqdm.tqdm([folder / PARTS / name for name in names[joined:]], desc="writing", unit=" parts")

    def _write_part(self, file: VectorFile, task: Task, bar: Optional[Any] = None) -> Counter[str]:
        """Write the part of a window to its path."""
        path, window = task
        folder = path.parents[1]
        with _resumable(folder), atomic_file(path, _partial(folder)) as temporary:
            file.write_part(temporary, window, self._arrays(window, bar), self.layout)
        return _count(window)

    def _arrays(self, window: Window, bar: Optional[Any]) -> Arrays:
        """Yield the index and the array of each sentence of a window."""
        # The vector of a cached word depends in its last bits on the words that were computed in the same batch.
        self._embedder.elmo.bilm.word_cache.clear()
        sentences = [sentence.tokens for sentence in window.sentences]
        half = self.layout.dtype == "float16" and self.layout.is_by_token
        for index, array in self._embedder.by_length(sentences, self._tokens_per_batch, self._batch_size, half):
            yield index, array if self.layout.is_by_token else mean(array)
            if bar is not None:
                bar.update(len(sentences[index]))


def reject_existing(output: Path) -> None:
    """Raise `ConfigurationError` if an output exists, and remove the folder that a run killed at its end left."""
    if output.exists():
        folder = Path(f"{output}{PART}")
        left = {path.name for path in folder.glob("*") if path.suffix != PARTIAL}
        if JOINING in left or left <= {RUN, LOCK}:
            shutil.rmtree(folder, ignore_errors=True)
        raise ConfigurationError(f"'{output}' exists already; {OTHER_OUTPUT}")


@contextmanager
def _part_folder(folder: Path, run: Mapping[str, Any]) -> Iterator[None]:
    """Make the folder of a run and lock it, or check that it belongs to this run.

    Raises `ConfigurationError` for the parts of another run, for a folder in which another process is at work, and for
    a folder with other content. At the end the folder is removed if it has no parts.
    """
    path = folder / RUN
    folder.mkdir(exist_ok=True)
    others = {file.name for file in folder.iterdir() if file.suffix != PARTIAL} - {JOINING, LOCK}
    if others and not path.exists():
        raise ConfigurationError(f"'{folder}': expected the folder of an unfinished output, got other files")
    lock = lock_folder(folder)
    try:
        _remove_partials(folder)
        if _part_names(folder):
            check_made_with(str(folder), path, run, OTHER_OUTPUT)
        else:
            with atomic_file(path, _partial(folder)) as temporary:
                temporary.write_text(json.dumps(run), encoding="utf-8")
            (folder / PARTS).mkdir(exist_ok=True)
        yield
    finally:
        _remove_partials(folder)
        os.close(lock)
        if not _part_names(folder):
            # On NFS, another process may have the lock open, which then cannot be removed yet.
            shutil.rmtree(folder, ignore_errors=True)


def _partial(folder: Path) -> Path:
    """Return the path of a temporary file that no other process writes."""
    return folder / f"{uuid4().hex}{PARTIAL}"


def _remove_partials(folder: Path) -> None:
    """Remove the temporary files of processes that were killed."""
    for left in folder.glob(f"*{PARTIAL}"):
        left.unlink(missing_ok=True)


def _count(window: Window) -> Counter[str]:
    return Counter(sentences=len(window.sentences), tokens=sum(len(sentence.tokens) for sentence in window.sentences))


def _part_names(folder: Path) -> list[str]:
    """Return the names of the finished parts, in the order of the text."""
    return sorted(path.name for path in (folder / PARTS).glob("*"))


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Turn a disk error into a `ConfigurationError` that names the output and says how to resume the run."""
    try:
        yield
    except (NotWritten, OSError) as error:
        left = (
            f"finished parts stay in '{folder}', and the same command resumes the run"
            if _part_names(folder)
            else "no part is finished, so the same command begins again"
        )
        raise ConfigurationError(
            f"'{str(folder).removesuffix(PART)}' cannot be written: {error.__cause__ or error}; {left}"
        ) from error


def unordered(
    function: Callable[[Task], Counter[str]], tasks: Iterable[Task], processes: int
) -> Generator[Counter[str], None, None]:
    """Yield `function(task)` of each task, in the order in which they are finished, from several processes.

    The processes share the memory of what the function holds, such as the weights of a biLM, and each uses one thread
    of PyTorch. On Linux they are forks, which share all memory; elsewhere the function is pickled, and they share
    tensors. Tasks are read as they are needed. If this generator is closed or raises, or if this process is killed, the
    processes end at once.

    Raises `ConfigurationError` if one of them is killed.
    """
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    receiver, sender = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(processes, context, _start, (function, receiver, sender))
    waiting: set[Future[Counter[str]]] = set()
    try:
        for task in tasks:
            waiting.add(pool.submit(_run, task))
            if len(waiting) > processes:  # one task more than processes, so that none has to wait
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        yield from (future.result() for future in as_completed(waiting))
    except BrokenProcessPool as error:
        raise ConfigurationError(
            f"one of {processes} processes was killed, perhaps because memory ran out; the same command resumes the "
            "run, also with fewer processes"
        ) from error
    finally:
        sender.close()
        pool.shutdown(cancel_futures=True)
        receiver.close()


_function: Callable[[Task], Counter[str]]
"""What this process runs, if it is one of several."""


def _start(function: Callable[[Task], Counter[str]], receiver: Connection, sender: Connection) -> None:
    """Prepare a process. It ends when nobody can send to `receiver` any more, so its own copy of the other end goes."""
    global _function
    _function = function
    sender.close()
    for stops in (signal.SIGINT, signal.SIGTERM):  # the process that reads the text decides
        signal.signal(stops, signal.SIG_IGN)
    torch.set_num_threads(1)
    Thread(target=_end_with, args=(receiver,), daemon=True).start()


def _end_with(receiver: Connection) -> None:
    """End this process, whatever it is doing, when the other end of the pipe is closed or its process is killed."""
    receiver.poll(None)
    os._exit(1)


def _run(task: Task) -> Counter[str]:
    return _function(task)
