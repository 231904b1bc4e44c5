"""Killed and resumed runs end like an uninterrupted run: weights, optimizer, random number generators and metrics."""

import os
import pydoc
import re
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.training.metric_tracker import MetricTracker
from torch import distributed

from elmo_plugin.pretraining import AtomicCheckpointer, BidirectionalLanguageModel, ExactResume, UnrolledStreams
from elmo_plugin.pretraining.shards_loader import ShardsLoader
from tests import killer  # noqa: F401  (registers `kill`)
from tests.distributed_jobs import context, in_two_processes
from tests.pretraining_runs import LOADERS, config, differences, end_of, train


class Stopped(Exception):
    """A run was stopped by its test."""


def train_with(environment: dict[str, str], keys: dict[str, Any], run: Path) -> None:
    """Train, or resume, in a process that `tests.killer` kills as its environment says."""
    os.environ |= environment
    torch.set_num_threads(1)  # as in the process of the tests; sums differ in their last bits otherwise
    train(keys, run, recover=run.exists())


def train_until_killed(keys: dict[str, Any], run: Path, **environment: str) -> None:
    """Train in another process, which is killed."""
    process = context().Process(target=train_with, args=(environment, keys, run))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


@pytest.fixture(scope="module", params=LOADERS)
def undisturbed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """Return a config, and what an uninterrupted run of it ends with."""
    folder = tmp_path_factory.mktemp(request.param)
    keys = config(folder, request.param)
    train(keys, folder / "run")
    return keys, end_of(folder / "run")


def test_a_run_killed_twice_ends_bit_for_bit_like_an_uninterrupted_one(
    undisturbed: tuple[Any, Any], tmp_path: Path
) -> None:
    keys, wanted = undisturbed
    run = tmp_path / "run"
    train_until_killed(keys, run, KILL_AFTER="7")
    train_until_killed(keys, run, KILL_BEFORE="model_state_e1_b8.th")
    # Only the checkpoint that was being written is lost.
    assert (run / "training_state_e1_b8.th").exists()
    assert sorted(path.name for path in run.glob("model_state*")) == ["model_state_e1_b0.th", "model_state_e1_b4.th"]
    train(keys, run, recover=True)
    assert differences(end_of(run), wanted) == []
    assert len(list(run.glob("*_state_*.th"))) == 4
    assert not list(run.glob("*.partial"))


Place = int | tuple[str, int]
"""The end of the n-th batch of training, or of "heldout", or the n-th call of the function with this name."""
TRAINER = "allennlp.training.gradient_descent_trainer"
BEST = f"{TRAINER}.hardlink_or_copy", 1
SECOND_BEST = f"{TRAINER}.hardlink_or_copy", 2
MODEL_SAVED = f"{TRAINER}.GradientDescentTrainer._save_model_state", 1
END_OF_TRAINING = f"{TRAINER}.GradientDescentTrainer._finalize_best_model_state", 1
ARCHIVE = "allennlp.commands.train.archive_model", 1
ON_BATCH = ExactResume.on_batch


def interrupt_at(patch: pytest.MonkeyPatch, place: Place, interrupt: Callable[[], None]) -> None:
    """Let the next run call `interrupt` at this place, before it saves a checkpoint or enters the function."""
    name, number = ("training", place) if isinstance(place, int) else place
    if name in ("training", "heldout"):

        def on_batch(self: ExactResume, *args: Any, is_training: bool, **kwargs: Any) -> None:
            batches = self.trainer._total_batches_completed if is_training else args[5]
            if is_training == (name == "training") and batches == number:
                interrupt()
            ON_BATCH(self, *args, is_training=is_training, **kwargs)

        patch.setattr(ExactResume, "on_batch", on_batch)
        return
    module, _, function = name.rpartition(".")
    calls = count(1)
    original = pydoc.locate(name)

    def called(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == number:
            interrupt()
        return original(*args, **kwargs)  # type: ignore[operator]

    patch.setattr(pydoc.locate(module), function, called)


def stop() -> None:
    """End a run at once."""
    raise Stopped


def terminate() -> None:
    """Send SIGTERM to this process."""
    signal.raise_signal(signal.SIGTERM)


def train_with_stops(keys: dict[str, Any], run: Path, *stops: Place) -> list[int]:
    """Stop and resume a run at each of these places, then let it end; return how many batches each part trained on."""
    given: list[int] = []
    moved = ShardsLoader._moved

    def counted(self: ShardsLoader, batch: Any) -> Any:
        given[-1] += self.endless
        return moved(self, batch)

    for part, place in enumerate([*stops, None]):
        given.append(0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ShardsLoader, "_moved", counted)
            if place is None:
                train(keys, run, recover=part > 0)
            else:
                interrupt_at(patch, place, stop)
                with pytest.raises(Stopped):
                    train(keys, run, recover=part > 0)
    return given


@pytest.mark.parametrize(
    ("stops", "batches"),
    [
        ([1, 4, 15, 16, 26, 30], [1, 4, 15, 4, 11, 7, 3]),
        ([BEST, END_OF_TRAINING], [15, 15, 0]),
        ([SECOND_BEST, ARCHIVE], [30, 0, 0]),
    ],
    ids=["batches", "first best.th, end of training", "second best.th, archive"],
)
def test_a_run_that_was_stopped_anywhere_ends_like_an_uninterrupted_one_and_reads_no_batch_twice(
    undisturbed: tuple[Any, Any], stops: list[Place], batches: list[int], tmp_path: Path
) -> None:
    """Each part continues with the batch after the last checkpoint, which is saved every 4 batches of 15."""
    keys, wanted = undisturbed
    assert train_with_stops(keys, tmp_path / "run", *stops) == batches
    assert differences(end_of(tmp_path / "run"), wanted) == []


@pytest.mark.parametrize(
    ("trainer", "stops", "best_epoch"),
    [
        ({"validation_metric": "+n_tokens", "patience": 1, "num_epochs": 3}, [BEST, END_OF_TRAINING], 0),
        ({"moving_average": {"type": "exponential", "decay": 0.9}}, [16, MODEL_SAVED], 1),
        ({"optimizer": {"type": "muon"}}, [6, 16], 1),
    ],
    ids=["never better, patience 1", "moving average", "muon"],
)
def test_the_best_epoch_patience_a_moving_average_and_both_optimizers_of_muon_are_kept(
    trainer: dict[str, Any], stops: list[Place], best_epoch: int, tmp_path: Path
) -> None:
    keys = config(tmp_path, "sentence_batches", **trainer)
    train(keys, tmp_path / "undisturbed")
    wanted = end_of(tmp_path / "undisturbed")
    assert wanted["metrics"]["metrics.json"]["best_epoch"] == best_epoch
    train_with_stops(keys, tmp_path / "run", *stops)
    assert differences(end_of(tmp_path / "run"), wanted) == []


SIGNALLED: dict[str, tuple[Place, str]] = {
    "training": (7, "e0_b7"),
    "last batch": (15, "e0_b15"),
    "validation": (("heldout", 2), "e0_b15"),
    "end of epoch": ((f"{TRAINER}.common_util.dump_metrics", 1), "e1_b0"),
    "end of training": ((f"{TRAINER}.common_util.dump_metrics", 2), "e2_b0"),
}
"""Where the signal arrives, and the checkpoint that the run leaves."""


def epoch_and_batch(checkpoint: Path) -> list[int]:
    """Return the numbers in a checkpoint's name. Two checkpoints may have been saved at the same time."""
    return [int(number) for number in re.findall(r"\d+", checkpoint.stem)]


@pytest.mark.parametrize("place", SIGNALLED)
def test_a_run_that_a_signal_stops_saves_a_checkpoint_and_ends_like_an_uninterrupted_one(
    undisturbed: tuple[Any, Any], place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys, wanted = undisturbed
    run, (where, saved) = tmp_path / "run", SIGNALLED[place]
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as stopped:
        interrupt_at(patch, where, terminate)
        train(keys, run)
    assert stopped.value.code == 128 + signal.SIGTERM
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "SIGTERM" in line]
    assert "recover" in line
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert max(run.glob("model_state_*"), key=epoch_and_batch).stem == f"model_state_{saved}"
    assert not (run / "model.tar.gz").exists()
    train(keys, run, recover=True)
    assert differences(end_of(run), wanted) == []


def test_a_signal_in_the_validation_finds_the_moving_average_in_the_model(tmp_path: Path) -> None:
    keys = config(tmp_path, "sentence_batches", moving_average={"type": "exponential", "decay": 0.9})
    train(keys, tmp_path / "undisturbed")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit):
        interrupt_at(patch, ("heldout", 1), terminate)
        train(keys, tmp_path / "run")
    train(keys, tmp_path / "run", recover=True)
    assert differences(end_of(tmp_path / "run"), end_of(tmp_path / "undisturbed")) == []


class Recorder(BidirectionalLanguageModel):
    """A model whose training state is one number."""

    def __init__(self, state: int) -> None:
        torch.nn.Module.__init__(self)
        self.state = state

    def forward(self) -> None:
        """Do nothing."""

    def training_state(self) -> dict[str, Any]:
        """Return the number as a tensor."""
        return {"state": torch.tensor(self.state)}

    def restore_training_state(self, state: dict[str, Any]) -> None:
        """Restore the number."""
        self.state = int(state["state"])

    def split_training_state(self, states: list[dict[str, Any]], rank: int, world_size: int) -> dict[str, Any]:
        """Return the sum of the numbers, for a single process."""
        assert (rank, world_size) == (0, 1)
        return {"state": sum(state["state"] for state in states)}


class NoBatches(UnrolledStreams):
    """A loader without text, for four streams."""

    batches_at_once = 1

    def __init__(self, length: Optional[int] = 0) -> None:
        self.length = length

    def __len__(self) -> int:
        """Return the length. Raises `TypeError` if there is none, as without `shuffle`."""
        return len(range(self.length))  # type: ignore[arg-type]

    def splits(self) -> dict[str, tuple[int, int]]:
        """Return the same number of streams for each process."""
        world_size = distributed.get_world_size() if distributed.is_initialized() else 1
        return {"streams": (4 // world_size, world_size)}

    def state_dict(self) -> dict[str, Any]:
        """Return an empty state."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do nothing."""


def started(folder: Path, state: Optional[dict[str, Any]] = None, **parts: Any) -> ExactResume:
    """Start the callback with a trainer that has only the parts that it needs."""
    callback = ExactResume(str(folder))
    if state is not None:
        callback.load_state_dict(state)
    trainer = SimpleNamespace(
        **{"data_loader": NoBatches(), "model": Recorder(0), "_checkpointer": AtomicCheckpointer(folder)} | parts,
        cuda_device=torch.device("cpu"),
        _num_gradient_accumulation_steps=1,
        _validation_data_loader=None,
        _metric_tracker=MetricTracker("-loss"),
        _batches_in_epoch_completed=1,
    )
    callback.on_start(trainer)  # type: ignore[arg-type]
    return callback


def save_and_restore(folder: Path) -> str:
    """Save the states 10 and 11 of two processes in a checkpoint, and return the state that this process restores."""
    rank = distributed.get_rank()
    saving = started(folder, model=Recorder(10 + rank))
    saving.trainer._checkpointer.before_saving[0]()
    if rank == 0:
        torch.save(saving.state_dict(), folder / "state.th")
    distributed.barrier()
    resumed = started(folder, torch.load(folder / "state.th", weights_only=True))
    resumed.trainer.model()
    resumed.on_end(resumed.trainer)
    return str(resumed.trainer.model.state)


def test_each_process_restores_its_own_state(tmp_path: Path) -> None:
    assert in_two_processes(save_and_restore, tmp_path / "run", tmp_path) == ["10", "11"]
    alone = started(tmp_path, torch.load(tmp_path / "state.th", weights_only=True))
    alone.trainer.model()
    assert alone.trainer.model.state == 21
    alone.on_end(alone.trainer)


@pytest.mark.parametrize(
    ("key", "part", "facts"),
    [
        ("data_loader", [], "unrolled_streams.*list"),
        ("data_loader", NoBatches(length=None), "shuffle"),
        ("model", torch.nn.Identity(), "bilm.*Identity"),
        ("_checkpointer", None, "atomic.*NoneType"),
    ],
)
def test_parts_that_cannot_resume_are_rejected(key: str, part: Any, facts: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"'[a-z.]*{key.strip('_')}'.*{facts}"):
        started(tmp_path, **{key: part})
