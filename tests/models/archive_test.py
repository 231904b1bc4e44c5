"""Promise 5: an archive is self-contained. It loads when the weight file no longer exists."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data.data_loaders import SimpleDataLoader
from allennlp.models import Model
from allennlp.models.archival import load_archive
from allennlp.predictors import Predictor
from allennlp.training.util import evaluate

from elmo_plugin.bilm import BiLM
from tests.models.configs import ELMO_ONLY, stock_tagger
from tests.oracles import lively, options, write_files
from tests.task_oracles import (
    OPINIONS,
    TOWNS,
    Config,
    bilm_files,
    build_model,
    classifier,
    csv_reader,
    experiment,
    read_data,
    small_bilm,
    tagger,
    tags_reader,
    train,
    warm_bilm,
)


def answers(model: Model, config: Config) -> list[dict[str, Any]]:
    """The output of a model for the data of its experiment, of which its biLM reads each word anew.

    The last bits of a word that training has cached may depend on the words of its batch.
    """
    for bilm in bilms(model):
        bilm.word_cache.clear()
    return model.eval().forward_on_instances(read_data(config))


def same(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> bool:
    """Whether two outputs have the same scores to the last bit, and the same words."""
    return all(
        (one["logits"] == other["logits"]).all() and one.get("tags") == other.get("tags")
        for one, other in zip(found, wanted, strict=True)
    )


def train_and_load(config: Config, folder: Path, *gone: Path) -> Model:
    """Train, remove other folders, and load the archive, which must give the same answers."""
    model = train(config, folder)
    for other in gone:
        shutil.rmtree(other)
    loaded = load_archive(folder / "model.tar.gz").model
    assert same(answers(loaded, config), answers(model, config))
    return loaded


def bilms(model: Model) -> list[BiLM]:
    return [module for module in model.modules() if isinstance(module, BiLM)]


EXPERIMENTS = {
    "elmo_tagger": lambda elmo: experiment(tagger(elmo), tags_reader(), TOWNS),
    "elmo_classifier": lambda elmo: experiment(classifier(elmo), csv_reader(), OPINIONS),
    "simple_tagger": lambda elmo: experiment(stock_tagger(elmo=elmo), tags_reader(token_indexers=ELMO_ONLY), TOWNS),
}


@pytest.mark.parametrize(
    ("kind", "form"), [("elmo_tagger", "pretrained"), ("elmo_classifier", "random"), ("simple_tagger", "pair")]
)
def test_an_archive_answers_the_same_when_the_files_are_gone(kind: str, form: str, tmp_path: Path) -> None:
    files = bilm_files(tmp_path / "bilm")
    random = {"bilm": {"options": options().to_dict(), "seed": 5}}
    elmo = {"pair": files, "pretrained": {"bilm": {"pretrained": files["weight_file"]}}, "random": random}[form]
    config = EXPERIMENTS[kind](elmo)
    model = train(config, tmp_path / "run")
    shutil.rmtree(tmp_path / "bilm")
    moved = tmp_path / "elsewhere.tar.gz"
    shutil.move(tmp_path / "run" / "model.tar.gz", moved)
    shutil.rmtree(tmp_path / "run")
    loaded = load_archive(moved).model
    assert same(answers(loaded, config), answers(model, config))


@pytest.mark.slow
def test_fine_tuned_weights_are_those_of_the_archive_and_not_of_the_file(tmp_path: Path) -> None:
    config = EXPERIMENTS["elmo_tagger"]({**bilm_files(tmp_path / "bilm"), "requires_grad": True})
    model = train(config, tmp_path / "run")
    archive = tmp_path / "run" / "model.tar.gz"
    for gone in (False, True):
        if gone:
            shutil.rmtree(tmp_path / "bilm")
        loaded = load_archive(archive).model
        (tuned,) = bilms(loaded)
        moved = [not torch.equal(value, small_bilm().get_parameter(name)) for name, value in tuned.named_parameters()]
        assert all(moved) and all(parameter.requires_grad for parameter in tuned.parameters())
        assert same(answers(loaded, config), answers(model, config))


def test_a_warm_state_goes_with_the_weights(tmp_path: Path) -> None:
    bilm = warm_bilm()
    write_files(tmp_path / "bilm", bilm)
    elmo = {"bilm": {"pretrained": str(tmp_path / "bilm")}, "initial_state": "warm"}
    loaded = train_and_load(EXPERIMENTS["simple_tagger"](elmo), tmp_path / "run", tmp_path / "bilm")
    assert torch.equal(bilms(loaded)[0].warm_hidden, bilm.warm_hidden)


TAGGER = experiment(tagger(None), tags_reader(), TOWNS)
"""The data of `trained_tagger`."""


@pytest.mark.slow
def test_a_predictor_an_evaluation_and_the_folder_of_a_run_need_no_other_file(trained_tagger: Path) -> None:
    archive, folder = load_archive(trained_tagger), trained_tagger.parent
    assert same(answers(load_archive(folder).model, TAGGER), answers(archive.model, TAGGER))
    loader = SimpleDataLoader(list(archive.dataset_reader.read(str(TOWNS))), 4, vocab=archive.model.vocab)
    metrics = evaluate(archive.model, loader)
    told = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["accuracy"] == pytest.approx(told["best_validation_accuracy"])
    assert len(Predictor.from_archive(archive).predict_json({"tokens": ["Tove", "left"]})["tags"]) == 2


FILES = ("options_file", "weight_file")


def test_an_archive_of_another_source_does_not_stand_in_for_a_wrong_path(trained_tagger: Path) -> None:
    with pytest.raises(ConfigurationError, match="'/no/such/file'"):
        load_archive(trained_tagger, overrides={f"model.elmo.{key}": "/no/such/file" for key in FILES})


@pytest.mark.slow
@pytest.mark.parametrize("place", ["an archive", "a run"])
@pytest.mark.parametrize("other", ["model.elmo.bilm", "model.elmo.mix", "model.elmo.scalar_mix_parameters"])
def test_an_override_that_the_weights_of_a_model_undo_is_rejected(place: str, other: str, tmp_path: Path) -> None:
    write_files(tmp_path / "bilm", small_bilm())
    write_files(tmp_path / "other", lively(small_bilm(), scale=0.5))
    first = tagger({"bilm": str(tmp_path / "bilm")})
    train(experiment(first, tags_reader(), TOWNS), tmp_path / "run")
    model = tmp_path / "run" / "model.tar.gz" if place == "an archive" else tmp_path / "run"
    value, key = {
        "model.elmo.bilm": (str(tmp_path / "other"), "bilm"),
        "model.elmo.scalar_mix_parameters": ([1.0, 0.0, 0.0], "scalar_mix_parameters"),
        "model.elmo.mix": (
            {"type": "scalar", "initial_scalar_parameters": [1.0, 0.0, 0.0]},
            "initial_scalar_parameters",
        ),
    }[other]
    with pytest.raises(ConfigurationError, match=f"{key}': .*leave this key out"):
        load_archive(model, overrides={other: value})
    load_archive(model, overrides={"model.elmo.bilm": str(tmp_path / "bilm"), "model.elmo.dropout": 0.1})


def go_on(config: Config, folder: Path) -> Model:
    """`allennlp train --recover` of a run that was stopped after two of its four epochs."""
    whole = {**config, "trainer": {**config["trainer"], "num_epochs": 4}}
    (folder / "config.json").write_text(json.dumps(whole), encoding="utf-8")
    return train(whole, folder, recover=True)


@pytest.mark.slow
def test_a_run_is_recovered_after_the_files_are_gone(tmp_path: Path) -> None:
    config = EXPERIMENTS["elmo_tagger"]({**bilm_files(tmp_path / "bilm"), "requires_grad": True})
    train(config, tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "control")
    wanted = answers(go_on(config, tmp_path / "control"), config)
    shutil.rmtree(tmp_path / "bilm")
    found = answers(go_on(config, tmp_path / "run"), config)
    assert same(found, wanted)
    assert (tmp_path / "run" / "metrics_epoch_3.json").exists()


def test_a_run_that_left_no_weights_says_which_file_it_misses(trained_tagger: Path, tmp_path: Path) -> None:
    shutil.copytree(trained_tagger.parent, tmp_path / "run", ignore=shutil.ignore_patterns("*.th"))
    with pytest.raises(ConfigurationError, match=r"weight_file': .*weights\.hdf5'"):
        go_on(json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8")), tmp_path / "run")


@pytest.mark.slow
def test_elmo_may_be_a_module_of_another_archive(trained_tagger: Path, tmp_path: Path) -> None:
    pretrained = {"_pretrained": {"archive_file": str(trained_tagger), "module_path": "text.elmo", "freeze": False}}
    model = train_and_load(EXPERIMENTS["elmo_classifier"](pretrained), tmp_path / "run")
    for name, value in load_archive(trained_tagger).model.text.elmo.named_parameters():
        parameter = model.text.elmo.get_parameter(name)
        assert parameter.requires_grad and not torch.equal(parameter, value)  # the biLM's too, as in AllenNLP
    one = EXPERIMENTS["elmo_tagger"](pretrained)
    one["model"]["elmo_at"] = ["input"]
    with pytest.raises(ConfigurationError, match=r"'elmo_at': .* 2 mixes .*, got \['input'\]"):
        build_model(one)
