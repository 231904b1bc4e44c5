"""Zip files and folders as NLPL and SeqVec publish them, recognized by their content."""

import gzip
import shutil
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from elmo_plugin import load
from elmo_plugin.checkpoints import load_checkpoint, load_sizes
from tests.checkpoint_oracles import assert_rejected, assert_same_checkpoint
from tests.checkpoints.file_shapes_test import cnn, lstm
from tests.checkpoints.file_tools import zipped
from tests.oracles import file_layers, tensorflow_file
from tests.task_oracles import build_elmo

CHARACTERS = {"lstm": lstm(), "char_cnn": cnn(filters=[[1, 3], [2, 3]])}
WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "日本語", "a", "b", "c"]
SENTENCE = ["the", "日本語", "cat"]


def published(folder: Path, layout: str, sizes: dict[str, Any] = CHARACTERS) -> Path:
    """Write a model as NLPL publishes it, with its own file names at the top, or as SeqVec does, in a folder."""
    inner = folder / ("uniref50_v2" if layout == "SeqVec" else "")
    inner.mkdir(parents=True)
    tensorflow_file(inner, sizes)
    if layout == "NLPL":
        (inner / "weights.hdf5").rename(inner / "model.hdf5")
        (inner / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS), encoding="utf-8")
        (inner / "meta.json").write_text("{}", encoding="utf-8")
        (inner / "README").write_text("hello", encoding="utf-8")
    return folder


def expected_layers(folder: Path, sentence: list[Any], weights: str) -> np.ndarray:
    """Return the layers (L, T, D) that the oracle computes from a file."""
    return file_layers(folder, sentence, weights)[:, 1:-1].float().numpy()


@pytest.mark.parametrize(
    ("layout", "name"), [("NLPL", "193.zip"), ("NLPL", "193"), ("SeqVec", "model.bak"), ("SeqVec", "")]
)
def test_a_file_as_it_is_published_is_read_under_any_name(tmp_path: Path, layout: str, name: str) -> None:
    folder = published(tmp_path / "there", layout)
    place = zipped(folder, tmp_path / name) if name else folder
    pair = (folder, "model.hdf5") if layout == "NLPL" else (folder / "uniref50_v2", "weights.hdf5")
    layers = expected_layers(pair[0], SENTENCE, pair[1])
    np.testing.assert_allclose(load(place).embed([SENTENCE])[0], layers, atol=1e-5)
    elmo = build_elmo(bilm=str(place))
    assert elmo.bilm.source == str(place) and elmo.bilm.options == load_sizes(place)


@pytest.mark.parametrize(("name", "as_zip"), [("vocab.txt", True), ("vocabulary.txt.gz", False)])
def test_the_vocabulary_may_be_compressed_and_tells_a_word_input_model_its_words(
    tmp_path: Path, as_zip: bool, name: str
) -> None:
    folder = published(tmp_path / "there", "NLPL", {"lstm": lstm()})
    layers = expected_layers(folder, [WORDS.index(word) + 1 for word in SENTENCE], "model.hdf5")
    words = (folder / "vocab.txt").read_bytes()
    (folder / "vocab.txt").unlink()
    (folder / name).write_bytes(gzip.compress(words) if name.endswith(".gz") else words)
    place = zipped(folder, tmp_path / "193.zip") if as_zip else folder
    assert load_checkpoint(place).vocabulary == WORDS
    np.testing.assert_allclose(load(place).embed([SENTENCE])[0], layers, atol=1e-5)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Serve the folder of the test."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.slow
def test_a_zip_file_is_downloaded_from_any_url(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allennlp.common.file_utils.CACHE_DIRECTORY", str(tmp_path / "cache"))
    folder = published(tmp_path / "there", "NLPL")
    zipped(folder, tmp_path / "193.zip")
    for url in (f"{server}/193.zip", f"{server}/193.zip?download=1&signature={'x' * 300}"):
        assert_same_checkpoint(load_checkpoint(url), load_checkpoint(folder))
    (tmp_path / "page.zip").write_text("<html>Sign in</html>", encoding="utf-8")
    assert_rejected(f"{server}/page.zip", f"'{server}/page.zip'", "HTML")
    assert_rejected(f"{server}/none.zip", f"{server}/none.zip", "no such file")


def test_an_error_in_a_zip_file_names_it_and_the_file_in_it(tmp_path: Path) -> None:
    folder = published(tmp_path / "there", "SeqVec")
    (folder / "uniref50_v2/options.json").write_text("{}", encoding="utf-8")
    path = zipped(folder, tmp_path / "seqvec.zip")
    assert_rejected(path, f"{path}/uniref50_v2/options.json", "'lstm'")


def test_a_folder_of_two_models_is_rejected(tmp_path: Path) -> None:
    published(tmp_path / "both/old", "NLPL")
    published(tmp_path / "both/new", "NLPL")
    for place in (tmp_path / "both", zipped(tmp_path / "both", tmp_path / "both.zip")):
        assert_rejected(place, f"'{place}'", "new, old")
    shutil.rmtree(tmp_path / "both/old")
    load_checkpoint(tmp_path / "both")


def test_hidden_files_of_other_systems_are_ignored(tmp_path: Path) -> None:
    """Archives of macOS hold a `._` file beside each file, or in a folder of their own."""
    folder = published(tmp_path / "there", "SeqVec")
    for name in ("uniref50_v2/._weights.hdf5", "__MACOSX/uniref50_v2/._weights.hdf5", "__MACOSX/._options.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"\0\5\26\7")
    for place in (folder, zipped(folder, tmp_path / "seqvec.zip")):
        assert load_checkpoint(place).options.lstm.n_layers == CHARACTERS["lstm"]["n_layers"]
