"""Runs of task models that were killed and recovered: with and without `exact_resume` and the checkpointer `atomic`."""

import json
import sys
from pathlib import Path
from pickle import UnpicklingError
from subprocess import DEVNULL, PIPE, Popen, run
from typing import Any

import allennlp.commands.train
import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import SigTermReceived
from allennlp.training import GradientDescentTrainer, TrainerCallback

from elmo_plugin import commands
from elmo_plugin.bilm import CharacterLevelEncoder
from elmo_plugin.common import LOCK
from elmo_plugin.pretraining.vocabulary import MARKS, vocabulary_of
from tests.full_disk import disk_of
from tests.oracles import options
from tests.pretraining_runs import differences
from tests.task_oracles import OPINIONS, TOWNS, classifier, csv_reader, experiment, tagger, tags_reader, train


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


@pytest.mark.slow
def test_a_run_that_was_killed_while_it_wrote_its_best_weights_validates_again_and_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first epoch is the best one, so that the recovered run has no other chance to write them."""
    keys = config(moving_average={"type": "exponential", "decay": 0.9}, validation_metric="+loss")
    train(keys, tmp_path / "undisturbed")
    wanted = end_of(tmp_path / "undisturbed")
    assert wanted["metrics"]["best_epoch"] == 0

    def stop(self: Any, path: str) -> None:
        Path(path).write_bytes(b"a half")
        raise Stopped

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(GradientDescentTrainer, "_save_model_state", stop)
        train(keys, tmp_path / "run")
    model = train(keys, tmp_path / "run", recover=True)
    assert differences(end_of(tmp_path / "run"), wanted) == []
    assert differences(dict(model.state_dict()), wanted["best"]) == []


@pytest.mark.slow
def test_a_run_that_was_killed_after_its_last_epoch_keeps_its_metrics_and_trains_no_further(tmp_path: Path) -> None:
    keys = config(validation_metric="+loss", patience=1, num_epochs=4)
    train(keys, tmp_path / "run")
    metrics = end_of(tmp_path / "run")
    assert metrics["metrics"]["epoch"] == 1
    (tmp_path / "run/metrics.json").unlink()
    train(keys, tmp_path / "run", recover=True)
    assert differences(end_of(tmp_path / "run"), metrics) == []
    assert not (tmp_path / "run/metrics_epoch_2.json").exists()


LOCKING = """
import fcntl, os, sys
fcntl.lockf(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX | fcntl.LOCK_NB)
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_run_in_whose_folder_another_process_trains_is_refused(tmp_path: Path) -> None:
    keys = config(num_epochs=1)
    train(keys, tmp_path / "run")
    # A lock belongs to a process, and the finished run has given it back.
    command = [sys.executable, "-c", LOCKING, str(tmp_path / "run" / LOCK)]
    with Popen(command, stdin=PIPE, stdout=PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"locked\n"
        with pytest.raises(ConfigurationError, match="run': another process"):
            train(keys, tmp_path / "run", recover=True)
        other.communicate()
    train(keys, tmp_path / "run", recover=True)


def test_a_run_locks_its_folder(tmp_path: Path) -> None:
    found = []

    class Locks(TrainerCallback):
        def on_start(self, *args: Any, **kwargs: Any) -> None:
            command = [sys.executable, "-c", LOCKING, str(tmp_path / "run" / LOCK)]
            found.append(run(command, stdin=DEVNULL, capture_output=True, check=False).returncode)

    TrainerCallback.register("locks", exist_ok=True)(Locks)
    train(config(num_epochs=1, callbacks=["locks"]), tmp_path / "run")
    assert found == [1]


def test_sigterm_ends_a_run_with_one_line_that_says_how_to_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command `allennlp` handles SIGTERM by an exception, which ended in a traceback."""

    def stop(*args: Any) -> None:
        raise SigTermReceived

    monkeypatch.setattr(GradientDescentTrainer, "_train_epoch", stop)
    with pytest.raises(SigTermReceived):
        train(config(), tmp_path / "in a program")
    monkeypatch.setattr(commands.train, "is_command", lambda: True)
    with pytest.raises(SystemExit) as stopped:
        train(config(), tmp_path / "run")
    assert stopped.value.code == 143
    assert "stopped by SIGTERM; there is no checkpoint yet" in capsys.readouterr().err


def test_a_full_disk_leaves_the_old_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("old")
    with disk_of(8), pytest.raises(ConfigurationError, match=r"config\.json'.*File too large"):
        commands.train._ConfigOfRun({"model": "x" * 50}).to_file(str(tmp_path / "config.json"))
    assert (tmp_path / "config.json").read_text() == "old"


def test_the_vocabulary_of_a_bilm_is_whole_or_cannot_be_read(tmp_path: Path) -> None:
    vocabulary = vocabulary_of([*MARKS, "one", "two"])
    with disk_of(12), pytest.raises(ConfigurationError, match=f"'{tmp_path / 'vocabulary'}'"):
        vocabulary.save_to_files(str(tmp_path / "vocabulary"))
    assert not list((tmp_path / "vocabulary").iterdir())
    vocabulary.save_to_files(str(tmp_path / "vocabulary"))
    vocabulary.save_to_files(str(tmp_path / "vocabulary"))  # as `--recover` does
    assert len(list((tmp_path / "vocabulary").iterdir())) == 2 + (tmp_path / "vocabulary/.lock").exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["model_state", "training_state", "missing"])
def test_a_checkpoint_that_was_cut_off_is_left_out(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without a cache, whose words have the last bits of the batches before, a run is continued exactly.
    monkeypatch.setattr("elmo_plugin.bilm.word_cache.fingerprint", lambda encoder: None)
    keys = config(checkpointer={"type": "default"})
    train(keys, tmp_path / "run")
    wanted = end_of(tmp_path / "run")
    model, training = (tmp_path / "run" / f"{name}_state_e2_b0.th" for name in ("model", "training"))
    broken = model if kind == "model_state" else training
    if kind == "missing":
        broken.unlink()
    else:
        broken.write_bytes(broken.read_bytes()[:1000])
    train(keys, tmp_path / "run", recover=True)
    assert f"'{broken}' is cut off or missing" in (tmp_path / "run" / "out.log").read_text()
    assert differences(end_of(tmp_path / "run"), wanted) == []
    assert torch.load(broken)


def test_without_a_complete_checkpoint_the_error_names_the_file(tmp_path: Path) -> None:
    keys = config(checkpointer={"type": "default", "keep_most_recent_by_count": 1})
    train(keys, tmp_path / "run")
    newest = tmp_path / "run" / "model_state_e2_b0.th"
    newest.unlink()  # `best.th` is another name of this file
    newest.write_bytes(b"")
    with pytest.raises(ConfigurationError, match=f"'{newest}'.*--force"):
        train(keys, tmp_path / "run", recover=True)
    assert newest.exists()


def test_an_error_from_a_complete_checkpoint_is_not_hidden(tmp_path: Path) -> None:
    keys = config(checkpointer={"type": "default"})
    train(keys, tmp_path / "run")
    torch.save(tmp_path, tmp_path / "run" / "training_state_e2_b0.th")  # a path is no type that `torch.load` may read
    with pytest.raises(UnpicklingError):
        train(keys, tmp_path / "run", recover=True)


def test_a_resumed_run_has_no_hooks_of_the_checks_that_its_start_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a hook, the encoder of a frozen biLM computes each word again in each batch."""
    hooks: list[int] = []
    train_batch = GradientDescentTrainer.batch_outputs

    def count(self: GradientDescentTrainer, *args: Any, **kwargs: Any) -> Any:
        hooks.append(sum(len(module._forward_hooks) for module in self.model.modules()))
        return train_batch(self, *args, **kwargs)

    monkeypatch.setattr(GradientDescentTrainer, "batch_outputs", count)
    keys = config(checkpointer={"type": "default"})
    train(keys, tmp_path / "run")
    assert hooks[0] > 10 and not any(hooks[1:])
    (tmp_path / "run" / "model_state_e2_b0.th").unlink()
    hooks.clear()
    train(keys, tmp_path / "run", recover=True)
    assert hooks and not any(hooks)


@pytest.mark.parametrize(("key", "value"), [("grad_norm", None), ("num_epochs", "3"), ("patience", 1.5)])
def test_a_value_that_the_trainer_cannot_use_is_named(key: str, value: object, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=rf"'trainer\.{key}': expected .*got {json.dumps(value)}"):
        train(config(**{key: value}), tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data_loader": {"batch_size": 7, "shuffle": False}}, r"'data_loader\.batch_size': expected 8 .*, got 7"),
        ({"random_seed": 3}, "'random_seed': expected no such key to continue the run of '.*', got 3"),
        ({"validation_data_path": None}, "'validation_data_path': expected .*, got null"),
    ],
)
def test_another_config_cannot_continue_a_run(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    train(config(), tmp_path / "run")
    with pytest.raises(ConfigurationError, match=message):
        train({**config(), **changes}, tmp_path / "run", recover=True)


def test_of_two_runs_that_begin_at_once_one_is_refused_and_the_other_keeps_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config()))
    folder, read = tmp_path / "run", Params.from_file

    def read_while_another_begins(*args: Any, **kwargs: Any) -> Params:
        if not folder.exists():
            train(config(num_epochs=1), folder)
            for weights in folder.glob("*.th"):  # as before its first checkpoint
                weights.unlink()
        return read(*args, **kwargs)

    monkeypatch.setattr(Params, "from_file", read_while_another_begins)
    monkeypatch.setattr("sys.argv", ["elmo-plugin", "train", str(tmp_path / "config.json"), "-s", str(folder)])
    monkeypatch.setattr("elmo_plugin.commands.train.program", lambda: "elmo-plugin")
    monkeypatch.setattr("elmo_plugin.commands.train.is_command", lambda: True)
    with pytest.raises(ConfigurationError, match="already exists"):
        allennlp.commands.train.train_model_from_file(str(tmp_path / "config.json"), str(folder))
    assert (folder / "config.json").exists() and (folder / "vocabulary").is_dir()


def test_a_killed_run_has_its_whole_config_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: Any, params_file: str, *args: Any, **kwargs: Any) -> None:
        Path(params_file).write_text("{")
        raise Stopped

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Params, "to_file", stop)
        train(config(), tmp_path / "run")
    assert not (tmp_path / "run" / "config.json").exists()


@TrainerCallback.register("kill_after")
class KillAfter(TrainerCallback):
    """Stands for a kill after a number of batches. Registered as a `TrainerCallback` with name `kill_after`."""

    left = 0

    def on_batch(self, *args: Any, is_training: bool, **kwargs: Any) -> None:
        """Count the batches of training."""
        KillAfter.left -= is_training
        if KillAfter.left == 0:
            raise Stopped


BUCKETS = {"batch_sampler": {"type": "bucket", "batch_size": 2, "sorting_keys": ["tokens"]}}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tagger", "classifier"])
@pytest.mark.parametrize("loader", [{"type": "simple", "batch_size": 2, "shuffle": True}, BUCKETS])
def test_a_task_that_was_killed_ends_with_the_same_weights(
    kind: str, loader: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout, and with a data loader that shuffles the data, `bucket` also those of the validation.

    Each number of words that are encoded at once has its own rounding, as with some processors and versions of PyTorch.
    """
    encode_all = CharacterLevelEncoder.encode_all
    rounded = lambda self, words: encode_all(self, words) * (1 + 1e-6 * len(words))  # noqa: E731
    monkeypatch.setattr(CharacterLevelEncoder, "encode_all", rounded)
    elmo = {"bilm": {"options": options().to_dict(), "seed": 0}}
    made = (tagger(elmo, dropout=0.3), tags_reader(), TOWNS), (classifier(elmo, dropout=0.3), csv_reader(), OPINIONS)
    exact = {
        "callbacks": ["kill_after", "exact_resume"],
        "checkpointer": {"type": "atomic", "save_every_num_batches": 1},
    }
    keys = experiment(*made[kind == "classifier"], num_epochs=3, **exact)
    keys["data_loader"] = loader
    if "shuffle" in loader:  # in place
        keys["validation_data_loader"] = {**loader, "shuffle": False}
    wanted_model = train(keys, tmp_path / "undisturbed")
    wanted = end_of(tmp_path / "undisturbed")
    for number, batches in enumerate((2, 5)):
        monkeypatch.setattr(KillAfter, "left", batches)
        with pytest.raises(Stopped):
            train(keys, tmp_path / "run", recover=number > 0)
    model = train(keys, tmp_path / "run", recover=True)
    assert differences(dict(model.state_dict()), dict(wanted_model.state_dict())) == []
    found = end_of(tmp_path / "run")
    assert differences(found["best"], wanted["best"]) == []
    kept = {name for name in wanted["metrics"] if "validation" in name or name == "training_loss"}
    assert [found["metrics"][name] for name in sorted(kept)] == [wanted["metrics"][name] for name in sorted(kept)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data_loader": {"batch_size": 2, "num_workers": 1}}, r"'data_loader\.num_workers': expected 0"),
        ({"trainer": {"checkpointer": {"type": "default"}}}, "'trainer.checkpointer': expected 'atomic'"),
        ({"model": {"elmo": {"initial_state": "carried"}}}, "'model': expected no state"),
        ({"model": {"encoder": {"stateful": True}}}, "'model': expected no state"),
    ],
)
def test_what_cannot_be_resumed_exactly_is_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    keys = config(callbacks=["exact_resume"])
    for block, change in changes.items():
        for key, value in change.items():
            both = isinstance(value, dict) and block == "model"
            keys[block][key] = {**keys[block][key], **value} if both else value
    with pytest.raises(ConfigurationError, match=message):
        train(keys, tmp_path / "run")
