"""What a kill or a full disk leaves of `allennlp train`, for models that have no `exact_resume`."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from allennlp.commands import train as train_command
from allennlp.common import Params
from allennlp.common import util as common_util
from allennlp.common.checks import ConfigurationError
from allennlp.common.meta import Meta
from allennlp.data import Vocabulary
from allennlp.training import GradientDescentTrainer, gradient_descent_trainer

import elmo_plugin  # noqa: F401
from tests.full_disk import disk_of
from tests.oracles import options
from tests.pretraining_runs import differences
from tests.task_oracles import TOWNS, experiment, tagger, tags_reader, train

Write = Callable[[Path], object]


class Stopped(BaseException):
    """Stands for a kill."""


def config(**trainer: Any) -> dict[str, Any]:
    """A tagger that AllenNLP's own `--recover` continues exactly: no dropout, no shuffling."""
    elmo = {"bilm": {"options": options().to_dict(), "seed": 0}, "dropout": 0.0}
    keys = experiment(tagger(elmo), tags_reader(), TOWNS, **{"checkpointer": {"type": "atomic"}, **trainer})
    keys["data_loader"] = {"batch_size": 8, "shuffle": False}
    return keys


def end_of(run: Path) -> dict[str, Any]:
    """The metrics and the best weights."""
    return {"metrics": json.loads((run / "metrics.json").read_text()), "best": torch.load(run / "best.th")}


@pytest.mark.parametrize("trainer", [{}, {"moving_average": {"type": "exponential", "decay": 0.9}}])
def test_best_weights_are_there_if_a_kill_came_between_their_checkpoint_and_their_copy(
    trainer: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first epoch is the best one, so that the recovered run has no other chance to copy it."""
    keys = config(**trainer, validation_metric="+loss")
    train(keys, tmp_path / "undisturbed")
    wanted = end_of(tmp_path / "undisturbed")
    assert wanted["metrics"]["best_epoch"] == 0

    def stop(*args: Any) -> None:
        raise Stopped

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(gradient_descent_trainer, "hardlink_or_copy", stop)
        patch.setattr(GradientDescentTrainer, "_save_model_state", stop)
        train(keys, tmp_path / "run")
    assert not (tmp_path / "run/best.th").exists()
    (tmp_path / "run/best.th.partial").write_bytes(b"half a copy")
    model = train(keys, tmp_path / "run", recover=True)
    assert differences(end_of(tmp_path / "run"), wanted) == []
    assert differences(dict(model.state_dict()), wanted["best"]) == []
    assert not list((tmp_path / "run").glob("*.partial"))


def test_a_run_that_was_killed_after_its_last_epoch_keeps_its_metrics_and_trains_no_further(tmp_path: Path) -> None:
    keys = config(validation_metric="+loss", patience=1, num_epochs=4)
    train(keys, tmp_path / "run")
    metrics = (tmp_path / "run/metrics.json").read_text()
    assert json.loads(metrics)["epoch"] == 1
    (tmp_path / "run/metrics.json").unlink()
    train(keys, tmp_path / "run", recover=True)
    assert json.loads((tmp_path / "run/metrics.json").read_text()) == json.loads(metrics)
    assert not (tmp_path / "run/metrics_epoch_2.json").exists()


def save_model_state(path: Path) -> None:
    trainer: Any = SimpleNamespace(_ddp_wrapped_model=None, model=torch.nn.Linear(3, 3))
    GradientDescentTrainer._save_model_state(trainer, str(path))


def archive(path: Path) -> None:
    assert train_command.archive_model(str(path.parent), "weights") == str(path)


WRITES: dict[str, Write] = {
    "config.json": lambda path: Params({"model": "x" * 50}).to_file(str(path)),
    "meta.json": lambda path: Meta.new().to_file(path),
    "metrics.json": lambda path: common_util.dump_metrics(str(path), {"loss": 1.0}),
    "best.th": save_model_state,
    "model.tar.gz": archive,
}


@pytest.mark.parametrize("name", WRITES)
def test_a_full_disk_leaves_the_old_file_and_the_error_names_it(name: str, tmp_path: Path) -> None:
    (tmp_path / "vocabulary").mkdir()
    (tmp_path / "weights").write_text("weights")
    for file in {name, "config.json"}:
        (tmp_path / file).write_text("old")
    before = sorted(tmp_path.iterdir())
    with disk_of(8), pytest.raises(ConfigurationError, match=f"'{tmp_path / name}'.*File too large"):
        WRITES[name](tmp_path / name)
    assert (tmp_path / name).read_text() == "old" and sorted(tmp_path.iterdir()) == before
    WRITES[name](tmp_path / name)
    assert (tmp_path / name).read_bytes() != b"old" and sorted(tmp_path.iterdir()) == before


def test_a_vocabulary_is_whole_or_cannot_be_read(tmp_path: Path) -> None:
    vocabulary = Vocabulary({"tokens": {"one": 1, "two": 2}, "labels": {"O": 1}})
    with disk_of(12), pytest.raises(ConfigurationError, match=f"'{tmp_path / 'vocabulary'}'"):
        vocabulary.save_to_files(str(tmp_path / "vocabulary"))
    assert not list((tmp_path / "vocabulary").iterdir())
    vocabulary.save_to_files(str(tmp_path / "vocabulary"))
    vocabulary.save_to_files(str(tmp_path / "vocabulary"))  # as `--recover` does
    assert Vocabulary.from_files(tmp_path / "vocabulary").get_index_to_token_vocabulary() == (
        vocabulary.get_index_to_token_vocabulary()
    )
