"""The command with each of its options. Each wrong use ends with one line and exit code 1."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing import active_children
from pathlib import Path
from typing import Any, Optional

import h5py
import numpy as np
import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin import embedding
from elmo_plugin.embedding import Embedder, VectorFile, corpus, corpus_embedder, load
from elmo_plugin.embedding.corpus import Window
from elmo_plugin.embedding.vector_files import Arrays, Layout
from tests.commands.alone import run
from tests.oracles import write_files
from tests.serving_oracles import FILES
from tests.task_oracles import D, L, small_bilm, warm_bilm

LINES = ["The cat sat .", "", "and / or", "The cat sat .", "Don't"]
BILM = ("--options-file", "options.json", "--weight-file", "weights.hdf5")
TABLE = (*BILM, "--id-column", "1", "--text-column", "2")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a text and the small biLM."""
    write_files(tmp_path, small_bilm())
    (tmp_path / "text").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def arrays(path: str = "out.hdf5") -> dict[str, np.ndarray]:
    """Return the arrays in an hdf5 file."""
    with h5py.File(path) as file:
        return {key: dataset[()] for key, dataset in file.items() if key != "sentence_to_index"}


def wanted(mix: str = "all", bilm: str = "weights.hdf5", initial_state: Optional[str] = None) -> dict[str, np.ndarray]:
    """Return the vectors of each line of the text, by the line's number."""
    embedded = load(bilm, mix, initial_state=initial_state).embed([line.split() for line in LINES])
    return {str(number): vectors for number, vectors in enumerate(embedded)}


def assert_close(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], atol: float = 1e-6) -> None:
    assert found.keys() == expected.keys()
    for key, vectors in expected.items():
        np.testing.assert_allclose(found[key], vectors, atol=atol, err_msg=key)


def test_it_writes_the_layout_of_the_retired_command_and_says_what(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("embed-corpus", "text", "out.hdf5", *BILM)
    printed = capsys.readouterr()
    assert printed.out == "" and f"out.hdf5: 5 sentences, 12 tokens; ({L}, T, {D}) float32; " in printed.err
    assert_close(arrays(), wanted())
    assert arrays()["1"].shape == (L, 0, D)
    with h5py.File("out.hdf5") as file:
        index = json.loads(file["sentence_to_index"][0])
    assert index == {"The cat sat .": "3", "and / or": "2", "Don't": "4"}


class LinesFile(VectorFile):
    """A format of somebody else: one line of numbers for each sentence."""

    ending = ".lines"

    def write_part(self, path: Path, window: Window, arrays: Arrays, layout: Layout) -> None:
        by_index = dict(arrays)
        path.write_text("".join(f"{by_index[index].mean()}\n" for index in sorted(by_index)), encoding="utf-8")

    def join(self, parts: Iterable[Path], target: Path, temporary: Path, layout: Layout) -> None:
        temporary.write_text("".join(part.read_text(encoding="utf-8") for part in parts), encoding="utf-8")
        temporary.replace(target)

    def _to_params(self) -> dict[str, Any]:
        return {"type": "lines"}


def test_a_format_that_another_package_registers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    VectorFile.register("lines", exist_ok=True)(LinesFile)
    run("embed-corpus", "text", "out.lines", *BILM, "--average", "--pool")
    means = np.loadtxt("out.lines")
    np.testing.assert_allclose(means[2], wanted("average")["2"].mean(), atol=1e-6)
    assert len(means) == len(LINES) and "next:" not in capsys.readouterr().err
    with pytest.raises(SystemExit, match="--compress and --forget-sentences: expected a format that has it"):
        run("embed-corpus", "text", "other.lines", *BILM, "--compress", "--forget-sentences")
    del VectorFile._registry[VectorFile]["lines"]


def test_each_choice_of_layers(folder: Path) -> None:
    for mix in ("top", "average", "concatenate"):
        run("embed-corpus", "text", mix, *BILM, f"--{mix}")
        assert_close(arrays(mix), wanted(mix))


def test_a_trained_mix_pooled_in_another_format(folder: Path) -> None:
    archive = str(FILES / "elmo_tagger.tar.gz")
    run("embed-corpus", "text", "out.npz", "--mix", archive, "--pool")
    embedded = wanted("trained", archive)
    with np.load("out.npz") as file:
        assert_close(dict(file), {n: v.mean(axis=0) if len(v) else 0 * file["0"] for n, v in embedded.items()})


def test_a_warm_start_in_half_the_bits_compressed(folder: Path) -> None:
    write_files(folder / "warm", warm_bilm())
    options = ("--initial-state", "warm", "--half", "--compress")
    run("embed-corpus", "text", "out.hdf5", "--bilm", "warm", *options)
    assert_close(arrays(), wanted(bilm="warm", initial_state="warm"), atol=2e-3)
    assert not np.allclose(arrays()["0"], wanted(bilm="warm")["0"], atol=1e-2)
    with h5py.File("out.hdf5") as file:
        assert file["0"].dtype == "float16" and file["0"].compression == "gzip"


def test_each_way_to_split(folder: Path) -> None:
    (folder / "text").write_text("Don't New\u00a0York\t\n\n", encoding="utf-8")
    for option, split, tokens in (
        ("--split", "space", ["Don't", "New\u00a0York"]),
        ("--tokenizer", "just_spaces", ["Don't", "New\u00a0York"]),
        ("--tokenizer", "spacy_blank", ["Do", "n't", "New", "York"]),
        ("--split", "tab", ["Don't New\u00a0York", ""]),
    ):
        run("embed-corpus", "text", split, *BILM, option, split)
        assert_close(arrays(split), {"0": load(folder).embed([tokens])[0], "1": np.zeros((L, 0, D))})


def test_ids_of_several_tables_are_keys(folder: Path) -> None:
    for name, number in (("one.tsv", 0), ("two.tsv", 2)):
        rows = "".join(f"P{line}\t{LINES[line]}\n" for line in (number, number + 1))
        (folder / name).write_text(f"accession\ttext\n{rows}")
    columns = ("--id-column", "accession", "--text-column", "text")
    run("embed-corpus", "one.tsv", "two.tsv", "out.hdf5", *BILM, *columns)
    assert_close(arrays(), {f"P{line}": vectors for line, vectors in wanted().items() if line != "4"})


def test_the_options_of_the_retired_command_are_accepted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--all", "--vocab-path", "vocabulary.txt", "--batch-size", 64, "--forget-sentences")
    run("embed-corpus", "text", "out.hdf5", *BILM, *options, "--cuda-device", -1, "--file-friendly-logging")
    with h5py.File("out.hdf5") as file:
        assert set(file) == {"0", "1", "2", "3", "4"}
    assert not Path("vocabulary.txt").exists() and "--vocab-path" in capsys.readouterr().err


def test_a_download_is_announced(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def download(keys: dict[str, str], *rest: object) -> None:
        text = capsys.readouterr().err
        assert keys["weight_file"] in text and "374 MB" in text and "--bilm english-tiny" in text
        raise ConfigurationError("no network")

    monkeypatch.setattr(embedding, "load_by_keys", download)
    with pytest.raises(SystemExit, match="no network"):
        run("embed-corpus", "text", "out.hdf5")


def test_paths_are_checked_before_anything_is_downloaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "load_by_keys", pytest.fail)
    for arguments in (["nowhere", "out"], ["text", "no/out"], ["text", "text"], ["text", "."]):
        with pytest.raises(SystemExit, match=r"^embed-corpus: "):
            run("embed-corpus", *arguments)


def test_the_ending_chooses_the_format_unless_it_is_named(folder: Path) -> None:
    run("embed-corpus", "text", "out.H5", *BILM)
    assert_close(arrays("out.H5"), wanted())
    run("embed-corpus", "text", "out.csv", *BILM, "--format", "npz")
    with np.load("out.csv") as file:
        assert_close(dict(file), wanted())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["text", "out.csv", *BILM], r"'out\.csv': expected .*\.h5 .*hdf5, npz, parquet.*--format"),
        (["text", "out", "--mix", "english-tiny"], r"'english-tiny': expected the archive of a trained model"),
        (["text", "out.npz", *BILM, "--forget-sentences"], r"--forget-sentences: .*npz"),
        (["text", "out", "--bilm", "english-tiny", *BILM], r"'bilm': expected either"),
        (["text", "out", *BILM, "--id-column", "1"], r"--text-column: expected the column"),
        (["text", "out", *TABLE, "--split", "tab"], r"expected --text-column or --split tab, got both"),
    ],
)
def test_an_error_is_one_line(folder: Path, arguments: list[str], said: str) -> None:
    with pytest.raises(SystemExit, match=f"^embed-corpus: {said}"):
        run("embed-corpus", *arguments)
    assert not list(folder.glob("out*"))


def test_after_a_signal_the_same_command_resumes_the_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(corpus, "CHARACTERS_IN_WINDOW", 12)  # a line each, or two
    run("embed-corpus", "text", "whole.npz", *BILM)
    vectors, batches = Embedder._vectors, iter(range(100))

    def signalled(self: Embedder, sentences: Any, half: bool) -> np.ndarray:
        if next(batches) == 2:
            signal.raise_signal(signal.SIGTERM)
        return vectors(self, sentences, half)

    monkeypatch.setattr(Embedder, "_vectors", signalled)
    with pytest.raises(SystemExit) as stopped:
        run("embed-corpus", "text", "out.npz", *BILM)
    assert stopped.value.code == 143
    assert "stopped by SIGTERM" in capsys.readouterr().err
    assert not Path("out.npz").exists()
    assert [path.suffix for path in Path("out.npz.part", "parts").iterdir()] == [".npz"] * 2
    run("embed-corpus", "text", "out.npz", *BILM)
    assert Path("out.npz").read_bytes() == Path("whole.npz").read_bytes()
    assert not Path("out.npz.part").exists()


@pytest.mark.slow
def test_after_a_signal_other_processes_have_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(corpus, "CHARACTERS_IN_WINDOW", 12)
    run("embed-corpus", "text", "whole.npz", *BILM)
    first = os.getpid()

    def wait(*_: object) -> None:
        with suppress(FileExistsError):
            (folder / "signalled").mkdir()
            os.kill(first, signal.SIGTERM)
        time.sleep(1000)

    with monkeypatch.context() as patched:
        patched.setattr(Embedder, "_vectors", wait)
        with pytest.raises(SystemExit) as stopped:
            run("embed-corpus", "text", "out.npz", *BILM, "--processes", 2)
    assert stopped.value.code == 143 and "stopped by SIGTERM" in capsys.readouterr().err
    assert not active_children() and not list(folder.glob("out*"))
    run("embed-corpus", "text", "out.npz", *BILM, "--processes", 2)
    assert Path("out.npz").read_bytes() == Path("whole.npz").read_bytes()


def test_a_processor_has_a_process_for_each_thread(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def unordered(function: Callable[[Any], Any], tasks: Iterable[Any], processes: int) -> Iterator[Any]:
        asked.append(processes)
        yield from map(function, tasks)

    monkeypatch.setattr(corpus, "CHARACTERS_IN_WINDOW", 12)
    monkeypatch.setattr(corpus_embedder, "unordered", unordered)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    run("embed-corpus", "text", "out.npz", *BILM)
    run("embed-corpus", "text", "two.npz", *BILM, "--processes", 2)
    run("embed-corpus", "text", "one.npz", *BILM, "--processes", 1)
    assert asked == [3, 2]


def test_a_gpu_is_used_only_if_the_user_chooses_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    run("embed-corpus", "text", "out.npz", *BILM)
    assert "--cuda-device 0 uses the first GPU" in capsys.readouterr().err and Path("out.npz").exists()
    with pytest.raises(SystemExit, match="'cuda_device': expected"):
        run("embed-corpus", "text", "other.npz", *BILM, "--cuda-device", 99)
    assert "--cuda-device 0" not in capsys.readouterr().err
