"""Layer weights and confusion matrices of trained runs, compared with AllenNLP's metrics and archives."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import load_archive

from elmo_plugin.analysis import keep_findings
from elmo_plugin.analysis.from_weights import learned_mixes, read_confusion, read_layer_weights
from tests.elmo.small_elmo import RANDOM
from tests.report_runs import write_json
from tests.task_oracles import (
    OPINIONS,
    TOWNS,
    D,
    classifier,
    csv_reader,
    experiment,
    tagger,
    tags_reader,
    train,
    word_embedder,
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs `opinions/both-1` and `towns/output-1`. Tests copy what they change."""
    folder = tmp_path_factory.mktemp("trained")
    elmo = {"bilm": RANDOM, "dropout": 0.5}
    trainer = {"num_epochs": 6, "validation_metric": "+accuracy", "optimizer": {"type": "adam", "lr": 0.03}}
    glad = experiment(classifier(elmo, dropout=0.5), csv_reader(), OPINIONS, **trainer)
    model = tagger(elmo, elmo_at=["output"], text_field_embedder=word_embedder(D))
    places = experiment(model, tags_reader(), TOWNS, num_epochs=1)
    train({**glad, "pytorch_seed": 1}, folder / "opinions/both-1")
    train({**places, "pytorch_seed": 1}, folder / "towns/output-1")
    return folder


@pytest.fixture
def runs(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "runs"))


@pytest.mark.parametrize("gone", ["best.th", "model.tar.gz"])
def test_layer_weights_equal_those_of_the_archived_model_from_either_file(runs: Path, gone: str) -> None:
    folder = runs / "opinions/both-1"
    mixes = [mix for name, mix in load_archive(folder / "model.tar.gz").model.named_modules() if hasattr(mix, "gamma")]
    (folder / gone).unlink()
    found = read_layer_weights(folder)
    assert found is not None and list(found) == ["input", "output"]
    for (weights, gamma), mix in zip(found.values(), mixes, strict=True):
        assert weights == mix.scalar_parameters.softmax(dim=0).tolist()
        assert gamma == mix.gamma.item() != 1.0


@pytest.mark.parametrize("gone", ["best.th", "model.tar.gz"])
def test_accuracy_and_f1_equal_those_measured_in_training(runs: Path, gone: str) -> None:
    folder = runs / "opinions/both-1"
    (folder / gone).unlink()
    matrix = read_confusion(folder)
    metrics = json.loads((folder / "metrics.json").read_text())
    assert matrix is not None and matrix.labels == sorted(matrix.labels)
    assert matrix.accuracy == pytest.approx(metrics["best_validation_accuracy"])
    assert sum(matrix.f1.values()) / len(matrix.f1) == pytest.approx(metrics["best_validation_macro_f1"])


def test_numeric_labels_get_the_names_in_classes_txt(tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("World\nSports\n", encoding="utf-8")
    write_json(tmp_path / "config.json", {"validation_data_path": str(tmp_path / "test.csv")})
    for labels, names in ((["1", "2"], ["World", "Sports"]), (["2", "3"], ["Sports", "3"]), (["1", "01"], ["1", "01"])):
        write_json(tmp_path / "confusion.json", {"labels": labels, "counts": [[1, 2], [3, 4]]})
        assert read_confusion(tmp_path) == (names, [[1, 2], [3, 4]])


def test_kept_files_replace_deleted_weights(runs: Path) -> None:
    folder = runs / "opinions/both-1"
    before = read_layer_weights(folder), read_confusion(folder)
    keep_findings(folder)
    for weights in [*folder.glob("*.th"), folder / "model.tar.gz"]:
        weights.unlink()
    assert (read_layer_weights(folder), read_confusion(folder)) == before
    assert not list(folder.glob("*.partial"))
    keep_findings(runs / "towns/output-1")
    assert not (runs / "towns/output-1/confusion.json").exists()


def test_the_mixes_of_an_enhanced_encoder_name_their_places() -> None:
    weights = {
        f"a.deep.encoder.{place}_mix.{name}": torch.tensor(values)
        for place, values in (("output", [0.0, 2.0]), ("input", [1.0, 1.0]))
        for name, values in (("scalar_parameters", values), ("gamma", [values[1]]))
    }
    found = learned_mixes(weights, {})
    assert found["input"] == ([0.5, 0.5], 1.0)
    assert found["output"].weights == pytest.approx([0.1192, 0.8808], abs=1e-4)


@pytest.mark.parametrize("mix", ["mixes.0", "scalar_mix_0"])
def test_the_mix_of_a_token_embedder_is_at_the_input(mix: str) -> None:
    """The names are those of the first archives and of AllenNLP."""
    name = f"text_field_embedder.token_embedder_elmo.elmo.{mix}"
    weights = {f"{name}.scalar_parameters": torch.zeros(4), f"{name}.gamma": torch.ones(1)}
    assert learned_mixes(weights, {}) == {"input": ([0.25] * 4, 1.0)}


@pytest.mark.parametrize("file", ["best.th", "model.tar.gz"])
def test_an_error_names_unreadable_weights(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_bytes(b"spoiled")
    with pytest.raises(ConfigurationError, match=file):
        read_layer_weights(tmp_path)
