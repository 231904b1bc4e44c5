"""What `train` says of a mistake in a config or on its command line: one line, with the whole path, before any data."""

import json
import tarfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from allennlp.common.checks import ConfigurationError

from tests.elmo.small_elmo import RANDOM
from tests.models.configs import ELMO_ONLY, pooling
from tests.task_oracles import TOWNS, D, allennlp, classifier, experiment, lstm, tagger, tags_reader, word_embedder

GONE = object()
"""Stands for a key that is taken out."""


@pytest.fixture(autouse=True)
def work_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_config(changes: dict[str, Any]) -> None:
    """Write the config of a tagger to `config.json`, with other values at these paths."""
    model = tagger({"bilm": RANDOM}, elmo_at=["output"], encoder=lstm(5), text_field_embedder=word_embedder())
    config: Any = deepcopy(experiment(model, tags_reader(), TOWNS))
    for path, value in changes.items():
        *blocks, key = path.split(".")
        block = config
        for each in blocks:
            block = block[each]
        block[key] = value
        if value is GONE:
            del block[key]
    Path("config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"trainer": GONE, "trainers": {}}, ["'trainers'", "did you mean 'trainer'?"]),
        ({"trainer": GONE}, ["'trainer'", "Trainer"]),
        ({"model.encoder": GONE}, ["'model.encoder'", "Seq2SeqEncoder"]),
        ({"trainer.optimizer": {"type": "adam", "learning_rate": 1}}, ["'trainer.optimizer.learning_rate'", "lr, "]),
        ({"trainer.epochs": 2}, ["'trainer.epochs'", "'num_epochs'"]),
        ({"model.type": "elmo_tager"}, ["'model.type'", "did you mean 'elmo_tagger'?"]),
        ({"dataset_reader.type": "colum_tags"}, ["'dataset_reader.type'", "did you mean 'column_tags'?"]),
        ({"trainer.callbacks": ["exact_resum"]}, ["'trainer.callbacks.0'", "did you mean 'exact_resume'?"]),
        ({"trainer.callbacks": [{"type": "wandbb"}]}, ["'trainer.callbacks.0.type'", "did you mean 'wandb'?"]),
        ({"trainer.callbacks": ["wandb"]}, ["'trainer.callbacks'", "pip install wandb"]),
        ({"model.elmo.dropout": "0.5"}, ["'model.elmo.dropout'", "a number", '"0.5"']),
        ({"model.elmo.dropout": 1.5}, ["'model.elmo.dropout'", "from 0 to 1", "1.5"]),
        ({"model.dropout": 1.5}, ["'model.dropout'", "from 0 to 1"]),
        ({"model.encoder.hidden_size": "fifty"}, ["'model.encoder.hidden_size'", "a whole number", '"fifty"']),
        ({"model.encoder.hiden_size": 5}, ["'model.encoder.hiden_size'", "did you mean 'hidden_size'?"]),
        ({"data_loader.batch_size": "3"}, ["'data_loader.batch_size'", "a whole number"]),
        ({"data_loader.batchsize": 3}, ["'data_loader.batchsize'", "'batch_size'"]),
        ({"trainer.num_epochs": "3"}, ["'trainer.num_epochs'", "a whole number"]),
        ({"trainer.num_epochs": 0}, ["'trainer.num_epochs'", "1 or more"]),
        ({"trainer.cuda_device": [0, 1]}, ["'trainer.cuda_device'", "'distributed'"]),
        ({"iterator": {"type": "basic"}}, ["'iterator'", "'data_loader'", "old-configs.md"]),
        (
            {"trainer.checkpointer": {"num_serialized_models_to_keep": 2}},
            ["'trainer.checkpointer.num_ser", "keep_most"],
        ),
        ({"validation_data_path": "empty.conll"}, ["empty.conll"]),
    ],
    ids=lambda case: next(iter(case)),
)
def test_a_mistake_in_a_config_is_named_with_its_whole_path(changes: dict[str, Any], facts: list[str]) -> None:
    Path("empty.conll").touch()
    write_config(changes)
    with pytest.raises(ConfigurationError) as caught:
        allennlp("train", "config.json", "-s", "run")
    assert [fact for fact in facts if fact not in str(caught.value)] == [], caught.value
    assert not list(Path("run").glob("*.th")) and len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("part", ["train", "validation"])
def test_a_file_without_texts_that_a_reader_of_allennlp_takes_is_an_error(part: str) -> None:
    Path("empty.jsonl").touch()
    Path("texts.jsonl").write_text('{"text": "a b", "label": "x"}\n{"text": "a c", "label": "y"}\n')
    reader = {"type": "text_classification_json", "tokenizer": "just_spaces", "token_indexers": ELMO_ONLY}
    model = classifier({"bilm": RANDOM}, elmo_at=["input"], encoder=lstm(D), seq2vec_encoder=pooling(12))
    config = experiment(model, reader, Path("texts.jsonl")) | {f"{part}_data_path": "empty.jsonl"}
    Path("config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigurationError, match=f"'{part}_data_path'"):
        allennlp("train", "config.json", "-s", "run")


@pytest.mark.parametrize(
    ("overrides", "facts"),
    [
        ('{"training.num_epochs": 2}', ["'training.num_epochs'", "did you mean 'trainer'?"]),
        ('{"trainer.optimiser.lr": 2}', ["'trainer.optimiser.lr'", "did you mean 'optimizer'?"]),
    ],
)
def test_an_override_of_a_block_that_is_not_there_is_named(overrides: str, facts: list[str]) -> None:
    write_config({})
    with pytest.raises(ConfigurationError) as caught:
        allennlp("train", "config.json", "-s", "run", "-o", overrides)
    assert all(fact in str(caught.value) for fact in facts)


@pytest.mark.parametrize("name", ["config.yaml", "folder", "model.tar.gz", "list.json"])
def test_what_is_no_config_is_said(name: str) -> None:
    Path("folder").mkdir()
    Path("config.yaml").write_text("model:\n  type: elmo_tagger\n")
    Path("list.json").write_text("[1]")
    with tarfile.open("model.tar.gz", "w:gz") as archive:
        archive.add("list.json", "config.json")
    for command in ("train", "check-data"):
        with pytest.raises((ConfigurationError, SystemExit), match=f"'{name}'.*expected a"):
            allennlp(command, name, *(["-s", "run"] if command == "train" else []))
    assert not Path("run").exists()


@pytest.mark.parametrize("folder", ["taken", "taken/run"])
def test_a_run_in_the_place_of_a_file_is_an_error_that_names_it(folder: str) -> None:
    write_config({})
    Path("taken").write_text("mine")
    with pytest.raises(ConfigurationError, match="'taken': expected a folder"):
        allennlp("train", "config.json", "-s", folder)
    assert Path("taken").read_text() == "mine"


def test_a_config_of_other_components_is_not_checked_by_this_package() -> None:
    """Its errors are AllenNLP's."""
    embedder = {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 4}}}
    config = {
        "dataset_reader": {"type": "sequence_tagging"},
        "train_data_path": "nowhere",
        "model": {"type": "simple_tagger", "text_field_embedder": embedder, "encoder": lstm(4)},
        "data_loader": {"batch_size": True},
        "trainer": {"num_epochs": 1, "whatever": 3},
    }
    Path("config.json").write_text(json.dumps(config))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        allennlp("train", "config.json", "-s", "run")
