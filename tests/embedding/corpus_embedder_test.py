"""Embed a text to a file: the vectors of each sentence alone, in flat memory and disk, and the same after any kill."""

import errno
import gc
import os
import tracemalloc
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.data import Tokenizer

from elmo_plugin.bilm import BiLM
from elmo_plugin.embedding import (
    Corpus,
    Embedder,
    Hdf5File,
    NpzFile,
    ParquetFile,
    VectorFile,
    corpus,
    joining,
    load,
    parquet,
)
from elmo_plugin.embedding.corpus import Window
from elmo_plugin.embedding.vector_file import Layout
from tests.embedding_runs import CHARACTERS, break_off, embed, write_text
from tests.oracles import lively, options, write_files
from tests.task_oracles import D, L, small_bilm, warm_bilm


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the small biLM; windows are small."""
    monkeypatch.setattr(corpus, "CHARACTERS_IN_WINDOW", CHARACTERS)
    monkeypatch.setattr(corpus, "SMALLEST_WINDOW", CHARACTERS)
    write_files(tmp_path / "bilm", small_bilm())
    return tmp_path


def parts(folder: Path) -> list[str]:
    """The names of the finished parts of `file`."""
    return sorted(path.name for path in (folder / "file.part/parts").iterdir())


@pytest.mark.parametrize(("pool", "half"), [(False, False), (False, True), (True, False)])
def test_each_line_has_the_vectors_of_its_sentence_alone(folder: Path, pool: bool, half: bool) -> None:
    lines = write_text(folder / "text", 150)
    counts = embed(folder, "file", Hdf5File(), pool=pool, half=half)
    assert counts == (150, sum(len(line.split()) for line in lines))
    alone = load(folder / "bilm")
    with h5py.File(folder / "file") as file:
        assert len(file) == 151
        for number, line in enumerate(lines):
            (wanted,) = alone.embed([line.split()])
            if pool:
                wanted = wanted.mean(axis=1) if line else np.zeros((L, D))
            found = file[str(number)]
            assert found.shape == wanted.shape and found.dtype == ("float16" if half else "float32")
            np.testing.assert_allclose(found, wanted, atol=2e-3 if half else 1e-6)
    assert sorted(path.name for path in folder.iterdir()) == ["bilm", "file", "text"]


def test_an_empty_text_makes_a_file_without_sentences(folder: Path) -> None:
    (folder / "text").write_text("")
    assert embed(folder, "file", Hdf5File()) == (0, 0)
    with h5py.File(folder / "file") as file:
        assert list(file) == ["sentence_to_index"] and file["sentence_to_index"][0] == b"{}"


@pytest.mark.parametrize("after", [0, 3, 20, 32])
def test_an_interrupted_run_is_resumed_to_the_same_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    write_text(folder / "text", 150)
    embed(folder, "whole.npz", NpzFile())
    with monkeypatch.context() as broken:
        break_off(broken, after)
        with pytest.raises(KeyboardInterrupt):
            embed(folder, "resumed.npz", NpzFile())
    assert not (folder / "resumed.npz").exists()
    assert (folder / "resumed.npz.part").exists() == (after > 15)
    batches: list[int] = []
    vectors = Embedder._vectors
    monkeypatch.setattr(Embedder, "_vectors", lambda self, s: batches.append(len(s)) or vectors(self, s))
    counts = embed(folder, "resumed.npz", NpzFile())
    resumed = len(batches)
    assert counts == embed(folder, "again.npz", NpzFile())
    assert (resumed < len(batches) - resumed) == (after > 15)
    assert (folder / "resumed.npz").read_bytes() == (folder / "whole.npz").read_bytes()
    assert not (folder / "resumed.npz.part").exists()


def test_a_window_does_not_depend_on_earlier_windows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a file is the same after a kill, although a word's last bits depend on the words computed with it."""
    known: list[int] = []
    vectors = Embedder._vectors
    monkeypatch.setattr(
        Embedder, "_vectors", lambda self, s: known.append(len(self.elmo.bilm.word_cache)) or vectors(self, s)
    )
    write_text(folder / "text", 150)
    windows = len(list(Corpus(folder / "text", Tokenizer.by_name("just_spaces")()).windows()))
    for _ in range(2):
        known.clear()
        embed(folder, "file", NpzFile())
        (folder / "file").unlink()
        assert known.count(0) == windows > 2


def test_a_resumed_run_embeds_nothing_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(folder / "text", 300)

    class Broken(NpzFile):
        def join(self, *arguments: Any, **keys: Any) -> None:
            raise OSError(28, "No space left on device")

    with pytest.raises(ConfigurationError, match=r"No space left on device; .*'.*file\.part'"):
        embed(folder, "file", Broken())
    break_off(monkeypatch, 0)
    assert embed(folder, "file", NpzFile()).sentences == 300


class Stopped(BaseException):
    """Raised in place of a kill, so that the test goes on."""


@pytest.mark.parametrize("file", [Hdf5File(), NpzFile()])
def test_a_join_that_is_stopped_anywhere_is_finished_by_the_next_run_without_a_second_copy(
    folder: Path, monkeypatch: pytest.MonkeyPatch, file: VectorFile
) -> None:
    """Each run is stopped before another of the calls that change the disk for good."""
    write_text(folder / "text", 80)
    embed(folder, "whole", file)
    whole = (folder / "whole").read_bytes()
    calls: list[int] = []
    peak = 0

    def watched(function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            nonlocal peak
            used = sum(path.stat().st_size for path in (folder / "file.part").rglob("*") if path.parent.name == "parts")
            joined = folder / "file.part/joined"
            peak = max(peak, used + (joined.stat().st_blocks * 512 if joined.exists() else 0))
            calls.append(1)
            if len(calls) == stop:
                raise Stopped
            return function(*arguments)

        return call

    monkeypatch.setattr(joining, "COPIES", 8)
    monkeypatch.setattr(os, "fsync", watched(os.fsync))
    monkeypatch.setattr(os, "replace", watched(os.replace))
    stop, finished = 0, False
    while not finished:
        stop += 1
        calls.clear()
        try:
            embed(folder, "file", file)
            finished = True
        except Stopped:
            assert not (folder / "file").exists()
    assert stop > 5 and (folder / "file").read_bytes() == whole
    assert peak < 1.25 * len(whole) + 50_000  # an eighth, and whole blocks of the disk
    assert sorted(path.name for path in folder.iterdir()) == ["bilm", "file", "text", "whole"]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"bilm": "other"}, "'weights'"),
        ({"bilm": "warm", "initial_state": "warm"}, "'initial_state'"),
        ({"half": True}, "'type of numbers'"),
        ({"pool": True}, "'shape'"),
        ({"tokens_per_batch": 50}, "'tokens per batch'"),
        ({"batch_size": 3}, "'batch size'"),
        ({"file": Hdf5File()}, "'file'"),
        ({"text": "changed"}, "'text from line 1'"),
        ({"text": "longer"}, "'text from line 1'"),
        ({"text": "shorter"}, "'text from line 1'"),
        ({"text": "empty"}, "'windows'"),
    ],
)
def test_an_unfinished_output_of_another_run_is_rejected_and_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], found: str
) -> None:
    write_files(folder / "other", lively(BiLM.random(options(), seed=0), scale=0.5))
    write_files(folder / "warm", warm_bilm())
    lines = write_text(folder / "text", 300)
    for name, other in {
        "changed": [*lines[:2], "x", *lines[3:]],
        "longer": [*lines[:1], *lines],
        "shorter": lines[:3],
        "empty": [],
    }.items():
        (folder / name).write_text("".join(f"{line}\n" for line in other), encoding="utf-8")
    with monkeypatch.context() as broken:
        break_off(broken, 45)
        with pytest.raises(KeyboardInterrupt):
            embed(folder, "file", NpzFile())
    kept = parts(folder)
    with pytest.raises(ConfigurationError, match=rf"file\.part'.*{found}"):
        embed(folder, "file", **{"file": NpzFile(), **changes})
    assert not (folder / "file").exists()
    break_off(monkeypatch, 0)
    with pytest.raises(KeyboardInterrupt):  # resumes after the kept parts
        embed(folder, "file", NpzFile())
    assert parts(folder) == kept and kept


def test_a_text_without_lines_is_resumed_in_parquet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With several processes, some have no lines of a short text."""
    arrow: Any = pytest.importorskip("pyarrow.parquet")
    (folder / "text").touch()

    def full(*paths: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(parquet, "os", SimpleNamespace(replace=full))
        with pytest.raises(ConfigurationError, match="No space left"):
            embed(folder, "file", ParquetFile())
    embed(folder, "file", ParquetFile())
    assert arrow.read_table(folder / "file").num_rows == 0 and not (folder / "file.part").exists()


def test_an_existing_file_is_kept(folder: Path) -> None:
    write_text(folder / "text", 5)
    (folder / "file").write_text("good")
    with pytest.raises(ConfigurationError, match="file' exists"):
        embed(folder, "file", NpzFile())
    assert (folder / "file").read_text() == "good" and not (folder / "file.part").exists()


def test_a_target_in_a_missing_folder_is_an_error(folder: Path) -> None:
    write_text(folder / "text", 5)
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

    def watched(self: Embedder, sentences: Any) -> np.ndarray:
        alive.append(weakref.ref(array := vectors(self, sentences)))
        look()
        return array

    class Nothing(VectorFile):
        part_ending = ""

        def write_part(self, path: Path, window: Window, arrays: Any, layout: Layout) -> None:
            for _ in arrays:
                pass
            look()
            path.touch()

        def join(self, parts: Path, target: Path, layout: Layout, progress: bool = True) -> None:
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
