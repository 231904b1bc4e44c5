"""Embed a text to a file: the vectors of each sentence alone, in flat memory, and the same after any kill."""

import errno
import gc
import gzip
import os
import shutil
import signal
import sys
import time
import tracemalloc
import weakref
from collections.abc import Iterable, Iterator
from itertools import islice
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, ClassVar

import h5py
import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import BiLM
from elmo_plugin.embedding import (
    Embedder,
    Hdf5File,
    NpzFile,
    ParquetFile,
    VectorFile,
    corpus,
    corpus_embedder,
    load,
)
from elmo_plugin.embedding.corpus import Window
from elmo_plugin.embedding.vector_files import Layout
from tests.embedding_runs import CHARACTERS, break_off, embed, write_text
from tests.oracles import lively, options, write_files
from tests.task_oracles import D, L, small_bilm


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the small biLM; windows are small."""
    monkeypatch.setattr(corpus, "CHARACTERS_IN_WINDOW", CHARACTERS)
    write_files(tmp_path / "bilm", small_bilm())
    return tmp_path


def parts(folder: Path) -> list[str]:
    """The names of the finished parts of `file`."""
    return sorted(path.name for path in (folder / "file.part/parts").iterdir())


def names(folder: Path) -> list[str]:
    """What stands in the folder beside the inputs."""
    return sorted(path.name for path in folder.iterdir() if path.name not in ("bilm", "text"))


@pytest.mark.parametrize(("pool", "half"), [(False, True), (True, False)])
def test_each_line_has_the_vectors_of_its_sentence_alone(folder: Path, pool: bool, half: bool) -> None:
    lines = write_text(folder / "text", 40)
    counts = embed(folder, "file", Hdf5File(), pool=pool, half=half)
    assert counts == (40, sum(len(line.split()) for line in lines))
    alone = load(folder / "bilm")
    with h5py.File(folder / "file") as file:
        assert len(file) == 41
        for number, line in enumerate(lines):
            (wanted,) = alone.embed([line.split()])
            if pool:
                wanted = wanted.mean(axis=1) if line else np.zeros((L, D))
            found = file[str(number)]
            assert found.shape == wanted.shape and found.dtype == ("float16" if half else "float32")
            np.testing.assert_allclose(found, wanted, atol=2e-3 if half else 1e-6)
    assert names(folder) == ["file"]


@pytest.mark.parametrize(
    ("finished", "expected"), [(0, "no part is finished, .* begins again"), (2, "finished parts stay in '.*file.part'")]
)
def test_on_a_full_disk_the_error_says_whether_parts_stay(
    folder: Path, monkeypatch: pytest.MonkeyPatch, finished: int, expected: str
) -> None:
    write_text(folder / "text", 40)
    write_part, written = NpzFile.write_part, []

    def write_until_full(file: NpzFile, path: Path, *arguments: Any) -> None:
        if len(written) == finished:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_part(file, path, *arguments)
        written.append(path)

    monkeypatch.setattr(NpzFile, "write_part", write_until_full)
    with pytest.raises(ConfigurationError, match=rf"'.*file' cannot be written: .*No space.*; {expected}"):
        embed(folder, "file", NpzFile())
    assert names(folder) == (["file.part"] if finished else [])


class Watched(NpzFile):
    """Notes the number of the parts that there are when each is joined."""

    seen: ClassVar[list[int]] = []

    def join(self, parts: Iterable[Path], *arguments: Any) -> None:
        def watched() -> Iterator[Path]:
            for part in parts:
                self.seen.append(len(list(part.parent.iterdir())))
                yield part

        super().join(watched(), *arguments)

    def _to_params(self) -> dict[str, Any]:
        return NpzFile()._to_params()


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("early", [True, False])
def test_parts_are_joined_while_later_ones_are_embedded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, early: bool, processes: int
) -> None:
    write_text(folder / "text", 60)
    monkeypatch.setattr(Watched, "seen", [])
    monkeypatch.setattr(Watched, "joins_while_embedding", early)
    embed(folder, "file.npz", Watched(), processes=processes)
    total = len(Watched.seen)
    assert total > 3 and Watched.seen[-1] == total  # the last part is joined when all are there
    assert (Watched.seen[0] < total) is early
    embed(folder, "whole.npz", NpzFile())
    assert (folder / "file.npz").read_bytes() == (folder / "whole.npz").read_bytes()


@pytest.mark.parametrize("file", [Hdf5File(), ParquetFile()], ids=lambda file: file.ending)
def test_a_text_that_cannot_be_read_to_its_end_is_no_error_of_the_output(folder: Path, file: VectorFile) -> None:
    write_text(folder / "plain", 200)
    (folder / "text.gz").write_bytes(gzip.compress((folder / "plain").read_bytes())[:-200])
    with pytest.raises(ConfigurationError, match=r"text\.gz") as error:
        embed(folder, "file", file, text="text.gz")
    assert "cannot be written" not in str(error.value)
    assert not (folder / "file").exists() and parts(folder)


class Full(Hdf5File):
    """Finds the disk full at the second part."""

    def join(self, parts: Iterable[Path], *arguments: Any) -> None:
        list(islice(parts, 2))
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_is_full_while_parts_are_joined_keeps_them_and_ends_all_processes(folder: Path) -> None:
    write_text(folder / "text", 60)
    with pytest.raises(ConfigurationError, match=r"file' cannot be written: .*No space.*; finished parts stay in"):
        embed(folder, "file", Full(), processes=2)
    assert names(folder) == ["file.part"] and not active_children()
    embed(folder, "file", Hdf5File())
    embed(folder, "whole", Hdf5File())
    assert (folder / "file").read_bytes() == (folder / "whole").read_bytes()


def kill_at_part(folder: Path, number: int) -> None:
    """Embed the text, and die before a part gets its name. A forked process computes with one thread."""
    replace, parts = Path.replace, []

    def killed(path: Path, target: Path) -> Path:
        parts.append(target)
        if sum(path.parent.name == "parts" for path in parts) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return replace(path, target)

    Path.replace = killed  # type: ignore[method-assign]
    embed(folder, "file", Hdf5File())


@pytest.mark.slow
def test_a_killed_run_is_resumed_to_the_same_file(folder: Path) -> None:
    write_text(folder / "text", 40)
    embed(folder, "whole", Hdf5File())
    process = get_context("fork").Process(target=kill_at_part, args=(folder, 2))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert [Path(name).suffix for name in parts(folder)] == [".hdf5"]
    embed(folder, "file", Hdf5File())
    assert (folder / "file").read_bytes() == (folder / "whole").read_bytes()
    assert names(folder) == ["file", "whole"]


class Stopped(BaseException):
    """Raised in place of a kill, so that the test goes on."""


@pytest.mark.slow
@pytest.mark.parametrize("file", [Hdf5File(), NpzFile(), ParquetFile()], ids=lambda file: file.ending)
def test_a_join_that_is_stopped_anywhere_is_finished_by_the_next_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, file: VectorFile
) -> None:
    """Each run is stopped before another of the calls that change the disk for good, or that call fails."""
    write_text(folder / "text", 20)
    embed(folder, "whole", file)
    calls: list[int] = []

    def watched(function: Any) -> Any:
        def call(*arguments: Any, **keys: Any) -> Any:
            calls.append(1)
            if len(calls) == stop:
                raise error
            return function(*arguments, **keys)

        return call

    for module, name in ((os, "fsync"), (os, "replace"), (Path, "replace"), (shutil, "rmtree")):
        monkeypatch.setattr(module, name, watched(getattr(module, name)))
    errors: list[BaseException] = [Stopped(), OSError(errno.EIO, "Input/output error")]
    stop, finished = 0, False
    while not finished:
        stop += 1
        error = errors[stop % 2]
        calls.clear()
        try:
            embed(folder, "file", file)
            finished = True
        except (Stopped, OSError):  # an `OSError` if the folder of a complete output cannot be removed
            pass
        except ConfigurationError as raised:
            if "exists already" in str(raised):  # stopped after the output got its name
                finished = True
        assert finished or stop < 50
    assert stop > 5 and names(folder) == ["file", "whole"]
    one, two = (sorted(path.rglob("*")) or [path] for path in (folder / "file", folder / "whole"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"bilm": "other"}, "'weights'"),
        ({"half": True}, "'type of numbers'"),
        ({"text": "changed"}, "'text from line 1'"),
        ({"version": 2}, "'version': expected 2, got 1"),
    ],
)
def test_an_unfinished_output_of_another_run_is_rejected_and_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], found: str
) -> None:
    write_files(folder / "other", lively(BiLM.random(options(), seed=0), scale=0.5))
    lines = write_text(folder / "text", 60)
    changed = "".join(f"{line}\n" for line in [*lines[:2], "x", *lines[3:]])
    (folder / "changed").write_text(changed, encoding="utf-8")
    with monkeypatch.context() as broken:
        break_off(broken, 18)
        with pytest.raises(KeyboardInterrupt):
            embed(folder, "file", NpzFile())
    kept = parts(folder)
    break_off(monkeypatch, 0)
    changes = dict(changes)
    with monkeypatch.context() as other, pytest.raises(ConfigurationError, match=rf"file\.part'.*{found}"):
        other.setattr(corpus_embedder, "VERSION", changes.pop("version", 1))
        embed(folder, "file", **{"file": NpzFile(), **changes})
    with pytest.raises(KeyboardInterrupt):  # resumes after the kept parts
        embed(folder, "file", NpzFile())
    assert parts(folder) == kept and len(kept) > 1 and not (folder / "file").exists()


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_processes_write_the_file_of_a_single_one(folder: Path, monkeypatch: pytest.MonkeyPatch, start: str) -> None:
    """They are forks on Linux, and are started anew on other systems."""
    lines = 60 if start == "fork" else 30
    write_text(folder / "text", lines)
    counts = embed(folder, "whole.npz", NpzFile())
    if start == "spawn":
        monkeypatch.setattr(sys, "platform", "darwin")
    assert embed(folder, "file.npz", NpzFile(), processes=2) == counts
    assert (folder / "file.npz").read_bytes() == (folder / "whole.npz").read_bytes()
    assert names(folder) == ["file.npz", "whole.npz"] and not active_children()


def test_no_process_is_started_for_a_text_of_one_window(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(folder / "text", 5)
    monkeypatch.setattr(corpus_embedder, "unordered", pytest.fail)
    assert embed(folder, "file", NpzFile(), processes=4).sentences == 5


def test_an_error_of_another_process_ends_all_of_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(folder / "text", 60)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(NpzFile, "write_part", full)
    with pytest.raises(ConfigurationError, match=r"'.*file' cannot be written: .*No space.*; no part is finished"):
        embed(folder, "file", NpzFile(), processes=2)
    assert not active_children() and names(folder) == []


@pytest.mark.slow
def test_a_killed_process_is_an_error_and_the_run_is_resumed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(folder / "text", 60)
    embed(folder, "whole.npz", NpzFile())
    with monkeypatch.context() as patched:
        vectors, batches = Embedder._vectors, iter(range(10))

        def killed(self: Embedder, sentences: Any, half: bool) -> np.ndarray:
            if next(batches) == 9:  # each process has its own count, and finishes a part before
                os.kill(os.getpid(), signal.SIGKILL)
            return vectors(self, sentences, half)

        patched.setattr(Embedder, "_vectors", killed)
        with pytest.raises(ConfigurationError, match="one of 2 processes was killed"):
            embed(folder, "file.npz", NpzFile(), processes=2)
    assert names(folder) == ["file.npz.part", "whole.npz"]
    assert {path.suffix for path in (folder / "file.npz.part").iterdir()} <= {"", ".json"}
    embed(folder, "file.npz", NpzFile(), processes=3)
    assert (folder / "file.npz").read_bytes() == (folder / "whole.npz").read_bytes()
    assert names(folder) == ["file.npz", "whole.npz"]


def embed_until_killed(folder: Path) -> None:
    """Embed by two processes, which note their numbers and then wait for ever."""

    def wait(*_: Any) -> None:
        (folder / f"process-{os.getpid()}").touch()
        time.sleep(1000)

    Embedder._vectors = wait  # type: ignore[assignment, method-assign]
    embed(folder, "file", NpzFile(), processes=2)


def test_if_the_first_process_is_killed_the_others_end(folder: Path) -> None:
    write_text(folder / "text", 60)
    first = get_context("fork").Process(target=embed_until_killed, args=(folder,))
    first.start()
    others: list[int] = []
    while len(others) < 2:
        others = [int(path.name.partition("-")[2]) for path in folder.glob("process-*")]
        time.sleep(0.01)
    first.kill()
    first.join()
    for other in others:
        while Path(f"/proc/{other}").exists() and "Z" not in Path(f"/proc/{other}/stat").read_text():
            time.sleep(0.01)


@pytest.mark.slow
def test_a_run_is_resumed_by_fewer_processes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(folder / "text", 60)
    embed(folder, "whole.npz", NpzFile())
    batches: list[int] = []
    vectors = Embedder._vectors
    monkeypatch.setattr(Embedder, "_vectors", lambda self, s, half: batches.append(len(s)) or vectors(self, s, half))
    embed(folder, "again.npz", NpzFile())
    total = len(batches)
    with monkeypatch.context() as broken:
        break_off(broken, 2 * total // 3)
        with pytest.raises(KeyboardInterrupt):
            embed(folder, "file.npz", NpzFile())
    batches.clear()
    embed(folder, "file.npz", NpzFile())
    assert 0 < len(batches) < total
    assert (folder / "file.npz").read_bytes() == (folder / "whole.npz").read_bytes()


@pytest.mark.slow
def test_two_runs_of_one_output_at_once_are_an_error(folder: Path) -> None:
    """Locks of byte ranges belong to a process, so the other run is another process."""
    write_text(folder / "text", 40)
    context = get_context("fork")
    at_work, go_on = context.Event(), context.Event()

    class Waiting(NpzFile):
        def write_part(self, *arguments: Any) -> None:
            super().write_part(*arguments)
            at_work.set()
            go_on.wait(60)

        def _to_params(self) -> dict[str, Any]:
            return NpzFile()._to_params()

    process = context.Process(target=embed, args=(folder, "file", Waiting()))
    process.start()
    assert at_work.wait(60)
    with pytest.raises(ConfigurationError, match=r"file\.part': another process is at work"):
        embed(folder, "file", NpzFile())
    go_on.set()
    process.join(60)
    assert process.exitcode == 0 and names(folder) == ["file"]


@pytest.mark.slow
@pytest.mark.parametrize("file", [Hdf5File(), ParquetFile()], ids=lambda file: file.ending)
@pytest.mark.parametrize("change", ["other parts", "fewer parts"])
def test_a_run_whose_folder_another_one_changes_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, file: VectorFile, change: str
) -> None:
    """As a run on another machine may do, whose locks are not seen here."""
    write_text(folder / "text", 60)
    with monkeypatch.context() as broken:
        break_off(broken, 15)
        with pytest.raises(KeyboardInterrupt):
            embed(folder, "half", file, half=True)
    write_part = type(file).write_part

    def written(*arguments: Any) -> None:
        write_part(*arguments)
        if change == "fewer parts":
            for path in (folder / "file.part/parts").iterdir():
                path.unlink()
        else:
            shutil.copytree(folder / "half.part/parts", folder / "file.part/parts", dirs_exist_ok=True)

    monkeypatch.setattr(type(file), "write_part", written)
    with pytest.raises(ConfigurationError, match=r"file\.part': another run"):
        embed(folder, "file", file)
    assert not (folder / "file").exists()


def test_an_existing_file_or_a_folder_with_other_content_is_kept(folder: Path) -> None:
    write_text(folder / "text", 5)
    (folder / "file").write_text("good")
    with pytest.raises(ConfigurationError, match="file' exists"):
        embed(folder, "file", NpzFile())
    (folder / "other.part").mkdir()
    (folder / "other.part/thesis").touch()
    with pytest.raises(ConfigurationError, match=r"other\.part'.*got other files"):
        embed(folder, "other", NpzFile())
    assert (folder / "file").read_text() == "good" and (folder / "other.part/thesis").exists()
    with pytest.raises(ConfigurationError, match=r"no_folder/file.*No such file or directory"):
        embed(folder, "no_folder/file", NpzFile())


@pytest.mark.slow
def test_arrays_and_text_in_memory_do_not_grow_with_the_corpus(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[weakref.ref[np.ndarray]] = []
    arrays, peak = 0, 0
    vectors = Embedder._vectors

    def look() -> None:
        nonlocal arrays, peak
        arrays = max(arrays, sum(ref() is not None for ref in alive))
        peak = max(peak, tracemalloc.get_traced_memory()[1])
        gc.collect()
        tracemalloc.reset_peak()

    def watched(self: Embedder, sentences: Any, half: bool) -> np.ndarray:
        alive.append(weakref.ref(array := vectors(self, sentences, half)))
        look()
        return array

    class Nothing(VectorFile):
        ending = ""

        def write_part(self, path: Path, window: Window, arrays: Any, layout: Layout) -> None:
            for _ in arrays:
                pass
            look()
            path.touch()

        def join(self, parts: Any, target: Path, temporary: Path, layout: Layout) -> None:
            look()
            target.touch()

        def _to_params(self) -> dict[str, Any]:
            return {"type": "nothing"}

    monkeypatch.setattr(Embedder, "_vectors", watched)
    peaks = []
    for lines in (20, 100, 500):  # the first fills caches
        write_text(folder / "text", lines)
        peak = 0
        gc.collect()
        gc.freeze()  # a collection has little to look at, so that there can be one at each look
        tracemalloc.start()
        try:
            embed(folder, f"of {lines}", Nothing())
        finally:
            tracemalloc.stop()
            gc.unfreeze()
        peaks.append(peak)
    assert len(alive) > 100 and arrays <= 3
    assert peaks[2] < 1.2 * peaks[1] + 50_000
