"""The command with each of its options. Each wrong use ends with one line and exit code 1."""

import io
import json
import lzma
import shlex
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import h5py
import numpy as np
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from elmoformanylangs.__main__ import read_corpus

from elmo_plugin.bilm.precision import CHOICES
from elmo_plugin.commands import embed_corpus
from elmo_plugin.embedding import CorpusEmbedder, Embedder, corpus, load, sentence_key
from tests import many_langs_oracle
from tests.elmo.small_elmo import RANDOM
from tests.full_disk import disk_of
from tests.oracles import write_files
from tests.task_oracles import TOWNS, D, L, allennlp, experiment, small_bilm, tagger, tags_reader, train, warm_bilm

LINES = ["The cat sat .", "", "and / or", "The cat sat .", "Don't"]
BILM = ("--options-file", "options.json", "--weight-file", "weights.hdf5")


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
    allennlp("embed-corpus", "text", "out.hdf5", *BILM)
    printed = capsys.readouterr()
    assert printed.out == "" and f"out.hdf5: 5 sentences, 12 tokens; ({L}, T, {D}) float32; " in printed.err
    assert_close(arrays(), wanted())
    assert arrays()["1"].shape == (L, 0, D)
    with h5py.File("out.hdf5") as file:
        index = json.loads(file["sentence_to_index"][0])
    assert index == {"The cat sat .": "3", "and / or": "2", "Don't": "4"}


def test_the_next_command_names_an_output_outside_the_basic_plane(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    allennlp("embed-corpus", "text", "🙂.npz", *BILM)
    (_, _, code) = shlex.split(capsys.readouterr().err.partition("next: ")[2])
    exec(code)
    assert "array" in capsys.readouterr().out


@pytest.mark.parametrize("mix", ["all", "last", "top", "average", "concatenate"])
def test_each_choice_of_layers(folder: Path, mix: str) -> None:
    allennlp("embed-corpus", "text", "out.hdf5", *BILM, f"--{mix}")
    assert_close(arrays(), wanted(mix))


def test_a_trained_mix_pooled_in_another_format(folder: Path) -> None:
    model = tagger({"bilm": RANDOM}, elmo_at=["input"])
    train(experiment(model, tags_reader(), TOWNS, num_epochs=1), folder / "run")
    allennlp("embed-corpus", "text", "out.npz", "--mix", "run/model.tar.gz", "--pool")
    embedded = wanted("trained", "run/model.tar.gz")
    with np.load("out.npz") as file:
        assert_close(dict(file), {n: v.mean(axis=0) if len(v) else np.zeros(D) for n, v in embedded.items()})


def test_sentences_as_keys(folder: Path) -> None:
    allennlp("embed-corpus", "text", "out.hdf5", *BILM, "--use-sentence-keys")
    expected = wanted()
    assert_close(arrays(), {sentence_key(LINES[line]): expected[str(line)] for line in (0, 2, 4)})


def test_half_the_bits_compressed(folder: Path) -> None:
    allennlp("embed-corpus", "text", "out", *BILM, "--half", "--compress")
    assert_close(arrays("out"), wanted(), atol=2e-3)
    with h5py.File("out") as file:
        assert file["0"].dtype == "float16" and file["0"].compression == "gzip"


@pytest.mark.usefixtures("native_bfloat16")
def test_computed_in_bfloat16(folder: Path) -> None:
    allennlp("embed-corpus", "text", "out", *BILM, "--precision", "bfloat16")
    assert_close(arrays("out"), wanted(), atol=0.1)
    assert any((arrays("out")[key] != vectors).any() for key, vectors in wanted().items())


@pytest.mark.usefixtures("emulated_bfloat16")
def test_a_run_is_identified_by_what_it_computes(folder: Path) -> None:
    asked = {name: CorpusEmbedder(load(folder, precision=name)).run() for name in CHOICES}
    assert asked["bfloat16"] == asked["auto"] == asked["float32"]
    assert asked["auto"]["dtype"] == "torch.float32"
    allennlp("embed-corpus", "text", "out", *BILM, "--precision", "auto")
    assert_close(arrays("out"), wanted(), atol=0)


@pytest.mark.parametrize(
    ("arguments", "sizes"),
    [((), [5]), (("--batch-size", 2), [2, 2, 1]), (("--tokens-per-batch", 10), [2, 1, 1, 1])],
)
def test_batches_by_number_and_by_tokens(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...], sizes: list[int]
) -> None:
    found: list[int] = []
    vectors = Embedder._vectors
    monkeypatch.setattr(Embedder, "_vectors", lambda self, s: found.append(len(s)) or vectors(self, s))
    allennlp("embed-corpus", "text", "out", *BILM, *arguments)
    assert found == sizes
    assert_close(arrays("out"), wanted())


def test_spacys_tokens(folder: Path) -> None:
    allennlp("embed-corpus", "text", "out", *BILM, "--tokenizer", "spacy_blank")
    (vectors,) = load(folder).embed([["Do", "n't"]])
    np.testing.assert_allclose(arrays("out")["4"], vectors, atol=1e-6)


@pytest.mark.parametrize("split", ["tab", "just_tabs"])
@pytest.mark.parametrize("option", ["--split", "--tokenizer"])
def test_tabs_separate_tokens_if_asked(folder: Path, option: str, split: str) -> None:
    (folder / "text").write_text("New York\tis\t\tbig\n\n", encoding="utf-8")
    allennlp("embed-corpus", "text", "out.hdf5", *BILM, option, split)
    (vectors,) = load(folder).embed([["New York", "is", "", "big"]])
    np.testing.assert_allclose(arrays()["0"], vectors, atol=1e-6)
    assert arrays()["1"].shape == (L, 0, D)


def test_tabs_give_the_layers_of_elmo_for_many_langs(folder: Path) -> None:
    """ELMoForManyLangs reads the same file. It carries its state to the next batch, so only the first is compared."""
    many_langs_oracle.write_folder(folder / "many", many_langs_oracle.config())
    (folder / "text").write_text("The cat\tsat\t\t.\n日本語\t🙂 \none\n", encoding="utf-8")
    _, sentences = read_corpus("text")
    allennlp("embed-corpus", "text", "out.hdf5", "--bilm", "many", "--split", "tab")
    for number, layers in enumerate(many_langs_oracle.its_layers(folder / "many", sentences)):
        np.testing.assert_allclose(arrays()[str(number)], layers, atol=1e-5)


def test_a_warm_start_gives_the_vectors_of_load(folder: Path) -> None:
    write_files(folder / "warm", warm_bilm())
    for state in ("warm", "zero"):
        allennlp("embed-corpus", "text", f"{state}.hdf5", "--bilm", "warm", "--initial-state", state)
        assert_close(arrays(f"{state}.hdf5"), wanted(bilm="warm", initial_state=state))
    assert not np.allclose(arrays("warm.hdf5")["0"], arrays("zero.hdf5")["0"], atol=1e-3)


def test_the_options_of_the_retired_command_are_accepted(
    folder: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--all", "--vocab-path", "vocabulary.txt", "--batch-size", 64, "--forget-sentences")
    allennlp("embed-corpus", "text", "out.hdf5", *BILM, *options, "--cuda-device", -1, "--file-friendly-logging")
    with h5py.File("out.hdf5") as file:
        assert set(file) == {"0", "1", "2", "3", "4"}
    assert_close(arrays(), wanted())
    assert not Path("vocabulary.txt").exists() and "--vocab-path" in capsys.readouterr().err


def test_a_download_is_announced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()

    def download(keys: dict[str, str], *rest: object) -> None:
        text = said.getvalue()
        assert keys["weight_file"] in text and "374 MB" in text and "--bilm english-tiny" in text
        raise ConfigurationError("no network")

    monkeypatch.setattr(embed_corpus, "load_by_keys", download)
    monkeypatch.setattr(sys, "stderr", said)
    with pytest.raises(SystemExit, match="no network"):
        allennlp("embed-corpus", "text", "out.hdf5")


@pytest.mark.parametrize(
    ("arguments", "said"), [(["nowhere", "out"], "nowhere"), (["text", "no/out"], "no/out"), (["text", "text"], "text")]
)
def test_paths_are_checked_before_anything_is_downloaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.setattr(embed_corpus, "load_by_keys", pytest.fail)
    with pytest.raises(SystemExit, match=said):
        allennlp("embed-corpus", *arguments)


@pytest.mark.parametrize("output", ["out.h5", "out.HDF5", "out"])
def test_hdf5_is_chosen_by_its_endings_and_without_one(folder: Path, output: str) -> None:
    allennlp("embed-corpus", "text", output, *BILM)
    assert_close(arrays(output), wanted())


def test_format_overrides_the_ending(folder: Path) -> None:
    allennlp("embed-corpus", "text", "out.csv", *BILM, "--format", "npz")
    with np.load("out.csv") as file:
        assert_close(dict(file), wanted())


def test_an_unused_gpu_is_mentioned(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    allennlp("embed-corpus", "text", "out.hdf5", *BILM)
    assert "--cuda-device 0" in capsys.readouterr().err
    allennlp("embed-corpus", "text", "quiet.hdf5", *BILM, "--cuda-device", -1)
    assert "--cuda-device" not in capsys.readouterr().err


def test_standard_input_and_a_compressed_text_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (folder / "text").read_bytes()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    allennlp("embed-corpus", "-", "piped", *BILM)
    (folder / "text.xz").write_bytes(lzma.compress(text))
    allennlp("embed-corpus", "text.xz", "unpacked", *BILM)
    assert_close(arrays("piped"), wanted())
    assert (folder / "piped").read_bytes() == (folder / "unpacked").read_bytes()


@pytest.mark.parametrize(("output", "chosen"), [("out.parquet", ()), ("out", ("--format", "parquet"))])
def test_parquet_by_the_ending_or_by_name(folder: Path, output: str, chosen: tuple[str, ...]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    allennlp("embed-corpus", "text", output, *BILM, "--top", *chosen)
    table = parquet.read_table(output).to_pydict()
    assert table["sentence"] == LINES and table["tokens"] == [line.split() for line in LINES]
    for found, vectors in zip(table["vectors"], wanted("top").values(), strict=True):
        np.testing.assert_allclose(np.reshape(found, (-1, D)), vectors, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere", "out", *BILM], r"nowhere: expected a text file"),
        ([".", "out", *BILM], r"\.: expected a text file, .* a folder"),
        (["text", "no/out", *BILM], r"'no/out' cannot be written: .*'no'"),
        (["text", "out.csv", *BILM], r"'out\.csv': expected .*\.hdf5.*\.npz.*\.parquet.*--format"),
        (["text", "out.en", *BILM], r"'out\.en': expected .*--format"),
        (["text", "out", "--mix", "english-tiny"], r"--mix: .*'english-tiny'.*--bilm english-tiny"),
        (["text", "out", "--mix", "top"], r"--mix: .*'top'.*--top"),
        (["text", "out", "--mix", "nowhere"], r".*'nowhere'"),
        (["text", "out", *BILM, "--initial-state", "warm"], r".*weights.hdf5 holds no warm state"),
        (["text", "out", *BILM, "--initial-state", "carried"], r"'initial_state': expected 'zero' or 'warm', got"),
        (["text", "out.npz", *BILM, "--forget-sentences"], r"--forget-sentences: .*npz"),
        (["text", "text", *BILM], r"'text' exists"),
        (["text", "out", "--bilm", "nowhere"], r"'nowhere' holds no biLM"),
        (["text", "out", "--bilm", "english-tiny", *BILM], r".*--bilm and --options-file"),
        (["text", "out", "--mix", "a", "--weight-file", "b"], r".*--mix and --weight-file"),
        (["text", "out", "--options-file", "a"], r"--weight-file is missing"),
        (["text", "out", "--weight-file", "a"], r"--options-file is missing"),
        (["text", "out.npz", *BILM, "--use-sentence-keys"], r"--use-sentence-keys: .*npz"),
        (["text", "out", *BILM, "--cuda-device", "99"], r"'cuda_device': .*99"),
    ],
)
def test_an_error_is_one_line(folder: Path, arguments: list[str], said: str) -> None:
    with pytest.raises(SystemExit, match=f"^embed-corpus: {said}"):
        allennlp("embed-corpus", *arguments)
    assert not list(folder.glob("out*"))
    assert (folder / "text").read_text(encoding="utf-8") == "\n".join(LINES) + "\n"


@pytest.mark.parametrize("arguments", [["--all", "--top"], ["--batch-size", "0"], ["--tokens-per-batch", "many"]])
def test_invalid_options_end_with_the_usage(folder: Path, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        allennlp("embed-corpus", "text", "out", *BILM, *arguments)
    assert end.value.code == 2


def test_the_progress_bar_shows_tokens_per_second(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    allennlp("embed-corpus", "text", "out", *BILM)
    bar = capsys.readouterr().err.replace("\r", "\n")
    assert "embedding: 100%" in bar and "12.0/12.0 [" in bar and "tokens/s]" in bar


@pytest.mark.parametrize("output", ["out.hdf5", "out.npz"])
def test_after_a_full_disk_the_same_command_resumes_the_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    """First the disk is too small for a part, then for the output that joins the parts."""
    monkeypatch.setattr(corpus, "CHARACTERS_IN_WINDOW", 2500)
    (folder / "text").write_text("The boat leaks and the boat sinks .\n" * 300, encoding="utf-8")
    size = 300 * 8 * L * D * 4
    for room in (size // 10, size // 2):  # a part takes a quarter
        with pytest.raises(SystemExit, match=f"^embed-corpus: '{output}' cannot be written: "), disk_of(room):
            allennlp("embed-corpus", "text", output, *BILM)
        assert not Path(output).exists()
    assert sum(path.stat().st_size for path in Path(f"{output}.part/parts").iterdir()) >= size
    allennlp("embed-corpus", "text", output, *BILM)
    assert [path.name for path in folder.glob("out*")] == [output]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_after_a_signal_the_same_command_resumes_the_run(
    folder: Path,
    number: signal.Signals,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(corpus, "CHARACTERS_IN_WINDOW", 12)  # a line each, or two
    allennlp("embed-corpus", "text", "whole.npz", *BILM)
    vectors, batches = Embedder._vectors, iter(range(100))

    def signalled(self: Embedder, sentences: Any) -> np.ndarray:
        if next(batches) == 2:
            signal.raise_signal(number)
        return vectors(self, sentences)

    monkeypatch.setattr(Embedder, "_vectors", signalled)
    with pytest.raises(SystemExit) as stopped:
        allennlp("embed-corpus", "text", "out.npz", *BILM)
    assert stopped.value.code == code
    assert f"stopped by {number.name}" in capsys.readouterr().err
    assert not Path("out.npz").exists()
    assert [path.suffix for path in Path("out.npz.part", "parts").iterdir()] == [".npz"] * 2
    allennlp("embed-corpus", "text", "out.npz", *BILM)
    assert Path("out.npz").read_bytes() == Path("whole.npz").read_bytes()
    assert not Path("out.npz.part").exists()


@pytest.mark.parametrize("output", [".", "/", "./"])
def test_an_output_without_a_file_name_is_rejected(
    folder: Path, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    before = sorted(folder.iterdir())
    with pytest.raises(SystemExit) as error:
        allennlp("embed-corpus", "text", output, *BILM)
    assert error.value.code == 2
    assert f"OUTPUT: expected the name of a file, got '{output}'" in capsys.readouterr().err
    assert sorted(folder.iterdir()) == before


def test_an_unwritable_output_is_one_line(folder: Path) -> None:
    (folder / "out.part").write_text("a file where a folder should be")
    with pytest.raises(SystemExit, match=r"^embed-corpus: 'out\.part'.*File exists"):
        allennlp("embed-corpus", "text", "out", *BILM)
    assert (folder / "out.part").read_text() == "a file where a folder should be"


def test_each_of_several_processes_names_the_shard_that_it_writes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(corpus, "CHARACTERS_IN_WINDOW", 20)
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("1", "0"):
        monkeypatch.setenv("RANK", rank)
        allennlp("embed-corpus", "text", "out.hdf5", *BILM)
    said = capsys.readouterr().err
    assert f"out.hdf5, shard 1 of 2: 4 sentences, 9 tokens; ({L}, T, {D}) float32\n" in said
    assert f"out.hdf5, shard 2 of 2: 1 sentences, 3 tokens; ({L}, T, {D}) float32\n" in said
    assert_close(arrays(), wanted())


def test_a_process_without_work_says_why(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, said in (("0", False), ("1", True)):
        monkeypatch.setenv("RANK", rank)
        allennlp("embed-corpus", "text", "out.hdf5", *BILM)
        assert ("nothing to do for process 2 of 2" in capsys.readouterr().err) == said
    assert_close(arrays(), wanted())


@pytest.mark.parametrize(
    ("environment", "arguments", "said"),
    [
        ({"WORLD_SIZE": "2"}, ["text", "out"], "environment: .* WORLD_SIZE .* got '2' and ''"),
        ({"WORLD_SIZE": "2", "RANK": "2"}, ["text", "out"], "environment: .* got '2' and '2'"),
        ({"WORLD_SIZE": "two", "RANK": "1"}, ["text", "out"], "environment: .* got 'two' and '1'"),
        ({"WORLD_SIZE": "2", "RANK": "1"}, ["-", "out"], "expected a file .* 2 processes.* standard input"),
        (
            {"WORLD_SIZE": "3", "RANK": "1"},
            ["text", "begun"],
            "'begun-00000-of-00002.part': .* 3 processes, got a run of 2",
        ),
        ({}, ["text", "begun"], "'begun-00000-of-00002.part': .* 1 processes, got a run of 2"),
    ],
)
def test_an_invalid_set_of_processes_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], arguments: list[str], said: str
) -> None:
    (folder / "begun-00000-of-00002.part").mkdir()
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match=f"^embed-corpus: {said}"):
        allennlp("embed-corpus", *arguments, *BILM)
    assert not list(folder.glob("out*"))


@pytest.mark.parametrize(
    ("local_rank", "arguments", "device"),
    [("1", [], 1), (None, [], -1), ("1", ["--cuda-device", "-1"], -1), ("1", ["--cuda-device", "0"], 0)],
)
def test_each_process_of_torchrun_has_a_gpu_unless_the_user_chooses_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, local_rank: Optional[str], arguments: list[str], device: int
) -> None:
    chosen: list[int] = []
    load_by_keys = embed_corpus.load_by_keys
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(
        embed_corpus, "load_by_keys", lambda *keys: chosen.append(keys[3]) or load_by_keys(*keys[:3], -1)
    )
    if local_rank is not None:
        monkeypatch.setenv("LOCAL_RANK", local_rank)
    allennlp("embed-corpus", "text", "out", *BILM, *arguments)
    assert chosen == [device]
