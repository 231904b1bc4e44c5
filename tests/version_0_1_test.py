"""Files written by version 0.1.0 load as they did: `fixtures/version_0_1/make.py` wrote them and what they answered."""

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from allennlp.models.archival import load_archive

import elmo_plugin
from elmo_plugin.checkpoints import load_checkpoint
from tests import killer  # noqa: F401  (registers `kill`, which the unfinished run names)
from tests.pretraining_runs import train
from tests.task_oracles import allennlp

FILES = Path(__file__).parent / "fixtures" / "version_0_1"
SENTENCES = [["The", "cat", "sat", "."], ["Ünïcödé", "日本語", "a" * 60], ["one"]]


@pytest.fixture(scope="module")
def expected() -> Any:
    return np.load(FILES / "expected.npz")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files to write beside, which is the working directory: their configs have relative paths."""
    shutil.copytree(FILES, tmp_path / "files")
    monkeypatch.chdir(tmp_path / "files")
    return tmp_path / "files"


def close(found: Any, wanted: Any) -> bool:
    return np.shape(found) == np.shape(wanted) and np.allclose(found, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("name", "file"), [("bilm_tf", "bilm_tf"), ("native", "native.safetensors")])
def test_weight_files_give_the_same_layers(name: str, file: str, expected: Any) -> None:
    found = elmo_plugin.load(FILES / file).embed(SENTENCES)
    assert all(close(layers, expected[f"{name}.{i}"]) for i, layers in enumerate(found))


def test_a_language_model_keeps_its_softmax_and_vocabulary(expected: Any) -> None:
    archive, native = load_checkpoint(FILES / "bilm.tar.gz"), load_checkpoint(FILES / "native.safetensors")
    for checkpoint in (archive, native):
        assert checkpoint.softmax is not None and checkpoint.vocabulary is not None
        assert close(checkpoint.softmax.state_dict["weight"], expected["native.softmax"])
    assert archive.vocabulary == native.vocabulary
    assert close(load_archive(FILES / "bilm.tar.gz").model.softmax.weight.detach(), expected["native.softmax"])


@pytest.mark.parametrize("name", ["elmo_tagger", "simple_tagger"])
def test_archives_answer_the_same_without_their_weight_file(name: str, files: Path, expected: Any) -> None:
    shutil.rmtree(files / "bilm_tf")
    archive = load_archive(files / f"{name}.tar.gz")
    instances = list(archive.dataset_reader.read("towns.txt"))[:3]
    found = archive.model.eval().forward_on_instances(instances)
    assert all(close(answer["logits"], expected[f"{name}.{i}"]) for i, answer in enumerate(found))


def test_a_corpus_has_the_same_vectors_and_keys(files: Path) -> None:
    allennlp("embed-corpus", "text.txt", "new.hdf5", "--bilm", "bilm_tf", "--all")
    with h5py.File("vectors.hdf5") as old, h5py.File("new.hdf5") as new:
        assert old.keys() == new.keys()
        assert old["sentence_to_index"][0] == new["sentence_to_index"][0]
        assert all(close(new[key], old[key]) for key in old if key != "sentence_to_index")


def test_an_unfinished_corpus_is_rejected(files: Path) -> None:
    """Version 0.1 kept unfinished outputs in another form."""
    with pytest.raises(SystemExit, match=r"unfinished\.hdf5\.part.*version 0\.1"):
        allennlp("embed-corpus", "text.txt", "unfinished.hdf5", "--bilm", "bilm_tf", "--all")
    assert not (files / "unfinished.hdf5").exists()
    assert (files / "unfinished.hdf5.part").exists()


def test_an_unfinished_run_of_pretraining_ends_as_it_would_have(files: Path) -> None:
    keys = json.loads((files / "unfinished.json").read_text(encoding="utf-8"))
    train(keys, files / "unfinished_run", recover=True)
    shutil.unpack_archive(files / "bilm.tar.gz", files / "undisturbed")
    wanted = torch.load(files / "undisturbed" / "weights.th", weights_only=True)
    found = torch.load(files / "unfinished_run" / "best.th", weights_only=True)
    assert found.keys() == wanted.keys()
    assert all(close(found[name], wanted[name]) for name in wanted if not name.endswith("_extra_state"))
