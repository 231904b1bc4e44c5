"""Runs that are killed and go on end as the run that was left alone: weights, optimizer, generators and metrics."""

import json
import os
import pydoc
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.training.metric_tracker import MetricTracker
from torch import distributed

from elmo_plugin.pretraining import AtomicCheckpointer, ExactResume
from elmo_plugin.pretraining.shards_loader import ShardsLoader
from tests import killer  # noqa: F401  (registers `kill`)
from tests.distributed_jobs import in_two_processes
from tests.pretraining_runs import LOADERS, config, differences, end_of, train

ROOT = Path(__file__).parents[2]


class Stopped(Exception):
    """A run was stopped by its test."""


def train_until_killed(keys: dict[str, Any], run: Path, **where: str) -> None:
    """`allennlp train`, in a process of its own, which does not survive."""
    file = run.with_suffix(".json")
    file.write_text(json.dumps(keys))
    arguments = ["train", str(file), "-s", str(run), "--include-package", "elmo_plugin", "--include-package"]
    command = [sys.executable, "-m", "allennlp", *arguments, "tests.killer", *(["--recover"] if run.exists() else [])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **where}
    ended = subprocess.run(command, env=environment, cwd=run.parent, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-3000:]


@pytest.fixture(scope="module", params=LOADERS)
def undisturbed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """A configuration, and how a run of it ends that nobody stops."""
    folder = tmp_path_factory.mktemp(request.param)
    keys = config(folder, request.param)
    train(keys, folder / "run")
    return keys, end_of(folder / "run")


def test_a_run_killed_twice_ends_bit_for_bit_as_one_that_never_was(
    undisturbed: tuple[Any, Any], tmp_path: Path
) -> None:
    keys, wanted = undisturbed
    run = tmp_path / "run"
    train_until_killed(keys, run, KILL_AFTER="7")
    train_until_killed(keys, run, KILL_BEFORE="model_state_e1_b8.th")
    # The checkpoint that it was busy with is the only one it lost.
    assert (run / "training_state_e1_b8.th").exists()
    assert sorted(path.name for path in run.glob("model_state*")) == ["model_state_e1_b0.th", "model_state_e1_b4.th"]
    train(keys, run, recover=True)
    assert differences(end_of(run), wanted) == []
    assert len(list(run.glob("*_state_*.th"))) == 4
    assert not list(run.glob("*.partial"))


ON_BATCH = ExactResume.on_batch


def stop_after(patch: pytest.MonkeyPatch, batches: int) -> None:
    """Let the next run end after so many batches, before it would save a checkpoint there."""

    def on_batch(self: ExactResume, *args: Any, is_training: bool, **kwargs: Any) -> None:
        ON_BATCH(self, *args, is_training=is_training, **kwargs)
        if is_training and self.trainer._total_batches_completed == batches:
            raise Stopped

    patch.setattr(ExactResume, "on_batch", on_batch)


def stop_at_call(patch: pytest.MonkeyPatch, place: str, number: int = 1) -> None:
    """Let the next run end where it would call this function for the nth time."""
    module, _, name = place.rpartition(".")
    calls = iter(range(1, number + 1))
    original = pydoc.locate(place)

    def called(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == number:
            raise Stopped
        return original(*args, **kwargs)  # type: ignore[operator]

    patch.setattr(pydoc.locate(module), name, called)


@pytest.mark.parametrize("batch", [1, 4, 15, 16, 30])
def test_a_run_goes_on_wherever_it_was_stopped(
    undisturbed: tuple[Any, Any], batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, wanted = undisturbed
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        stop_after(patch, batch)
        train(keys, tmp_path / "run")
    train(keys, tmp_path / "run", recover=True)
    assert differences(end_of(tmp_path / "run"), wanted) == []


def test_what_was_read_before_the_kill_is_not_read_again(
    undisturbed: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, _ = undisturbed
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        stop_after(patch, 26)
        train(keys, tmp_path / "run")
    given: list[bool] = []
    moved = ShardsLoader._moved
    monkeypatch.setattr(ShardsLoader, "_moved", lambda self, batch: given.append(self.endless) or moved(self, batch))
    train(keys, tmp_path / "run", recover=True)
    assert given.count(True) == 7  # the checkpoint is that of the second epoch's batch 8 of 15


TRAINER = "allennlp.training.gradient_descent_trainer"
MOMENTS = {
    "before the first best.th": (f"{TRAINER}.hardlink_or_copy", 1),
    "before the second best.th": (f"{TRAINER}.hardlink_or_copy", 2),
    "after training": (f"{TRAINER}.GradientDescentTrainer._finalize_best_model_state", 1),
    "before the archive": ("allennlp.commands.train.archive_model", 1),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_goes_on_from_the_moments_around_an_epochs_end(
    undisturbed: tuple[Any, Any], moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, wanted = undisturbed
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        stop_at_call(patch, *MOMENTS[moment])
        train(keys, tmp_path / "run")
    train(keys, tmp_path / "run", recover=True)
    assert differences(end_of(tmp_path / "run"), wanted) == []


@pytest.mark.parametrize("moment", ["before the first best.th", "after training"])
def test_the_first_epoch_stays_the_best_and_a_run_without_patience_ends(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_better = {"validation_metric": "+n_tokens", "patience": 1, "num_epochs": 3}
    keys = config(tmp_path, "unrolled_streams", **never_better)
    train(keys, tmp_path / "undisturbed")
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        stop_at_call(patch, *MOMENTS[moment])
        train(keys, tmp_path / "run")
    train(keys, tmp_path / "run", recover=True)
    wanted = end_of(tmp_path / "undisturbed")
    assert wanted["metrics"]["metrics.json"]["best_epoch"] == 0
    assert differences(end_of(tmp_path / "run"), wanted) == []


class Recorder(torch.nn.Module):
    """A model, and a loader, with a state that tells its process."""

    def __init__(self, state: int) -> None:
        super().__init__()
        self.state = state

    def forward(self) -> None:
        """Nothing."""

    def training_state(self) -> dict[str, Any]:
        """One tensor."""
        return {"state": torch.tensor(self.state)}

    def restore_training_state(self, state: dict[str, Any]) -> None:
        """The same."""
        self.state = int(state["state"])


def started(folder: Path, state: Optional[dict[str, Any]] = None, **parts: Any) -> ExactResume:
    """The callback of a trainer of which only what it asks for is there."""
    callback = ExactResume(str(folder))
    if state is not None:
        callback.load_state_dict(state)
    trainer = SimpleNamespace(
        **{"data_loader": torch.nn.ModuleList(), "model": Recorder(0), "_checkpointer": AtomicCheckpointer(folder)}
        | parts,
        cuda_device=torch.device("cpu"),
        _metric_tracker=MetricTracker("-loss"),
        _batches_in_epoch_completed=1,
    )
    callback.on_start(trainer)  # type: ignore[arg-type]
    return callback


def save_and_restore(folder: Path) -> str:
    """One of two processes: states 10 and 11 go into a checkpoint, and come out where they belong."""
    rank = distributed.get_rank()
    saving = started(folder, model=Recorder(10 + rank))
    saving.trainer._checkpointer.before_saving[0]()
    if rank == 0:
        torch.save(saving.state_dict(), folder / "state.th")
    distributed.barrier()
    resumed = started(folder, torch.load(folder / "state.th", weights_only=True))
    resumed.trainer.model()
    return str(resumed.trainer.model.state)


def test_each_process_takes_up_its_own_state(tmp_path: Path) -> None:
    assert in_two_processes(save_and_restore, tmp_path / "run", tmp_path) == ["10", "11"]
    with pytest.raises(ConfigurationError, match="of 2 processes and this run of 1; wanted as many"):
        started(tmp_path, torch.load(tmp_path / "state.th", weights_only=True))


@pytest.mark.parametrize(
    ("part", "found", "message"),
    [
        ("data_loader", [], "'data_loader' of list; wanted 'unrolled_streams' or 'sentence_batches'"),
        (
            "data_loader",
            torch.nn.Identity(),
            "wants a 'data_loader' with 'shuffle': object of type 'Identity' has no len",
        ),
        ("model", torch.nn.Identity(), "'model' of Identity; wanted 'bilm'"),
        ("_checkpointer", None, "'trainer.checkpointer' of NoneType; wanted 'atomic'"),
    ],
)
def test_what_cannot_resume_is_refused(part: str, found: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=message):
        started(tmp_path, **{part: found})


@pytest.mark.parametrize("stop", ["in the middle", "before the best is kept"])
def test_a_run_with_a_moving_average_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: str
) -> None:
    keys = config(tmp_path, "sentence_batches", moving_average={"type": "exponential", "decay": 0.9})
    train(keys, tmp_path / "undisturbed")
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        if stop == "in the middle":
            stop_after(patch, 16)
        else:
            trainer = "allennlp.training.gradient_descent_trainer.GradientDescentTrainer"
            stop_at_call(patch, f"{trainer}._save_model_state", 2)
        train(keys, tmp_path / "run")
    train(keys, tmp_path / "run", recover=True)
    assert differences(end_of(tmp_path / "run"), end_of(tmp_path / "undisturbed")) == []
