"""Checkpoints, and runs that were killed or stopped: they end like an uninterrupted run, to the last bit."""

import json
import os
import pydoc
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from allennlp.commands import train as train_command
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.training.checkpointer import Checkpointer
from allennlp.training.trainer import TrainerCheckpoint
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from elmo_plugin.pretraining import AtomicCheckpointer, ExactResume
from elmo_plugin.pretraining import trainer as trainer_module
from elmo_plugin.pretraining.loaders import ShardsLoader
from tests import killer  # noqa: F401  (registers `kill` and `stop`)
from tests.distributed_jobs import context, start_processes
from tests.full_disk import disk_of
from tests.pretraining_runs import BATCHES, LOADERS, config, differences, end_of, train

EPOCH = 100


class Trainer(SimpleNamespace):
    """The parts of a trainer that a checkpointer uses."""

    data_loader = range(2 * EPOCH)
    _num_gradient_accumulation_steps = 2
    cuda_device = torch.device("cpu")
    is_primary = True
    weights = torch.ones(2)

    def get_checkpoint_state(self) -> Any:
        """Return a checkpoint state in the first process, as AllenNLP's trainer does."""
        point = {"epochs_completed": self.epochs, "batches_in_epoch_completed": self.batches}
        return TrainerCheckpoint({"weights": self.weights}, point) if self.is_primary else None


def trainer_at(epochs: int, batches: int, **trainer: Any) -> Any:
    """Return a trainer after this batch."""
    return Trainer(epochs=epochs, batches=batches, _total_batches_completed=EPOCH * epochs + batches, **trainer)


def ask(checkpoints: AtomicCheckpointer, epochs: int, batches: int, **trainer: Any) -> bool:
    """Return whether it saves a checkpoint after this batch."""
    return checkpoints.maybe_save_checkpoint(trainer_at(epochs, batches, **trainer), epochs, batches)


def save(checkpoints: AtomicCheckpointer, epochs: int, batches: int, **trainer: Any) -> None:
    """Save a checkpoint."""
    checkpoints.save_checkpoint(Trainer(epochs=epochs, batches=batches, **trainer))  # type: ignore[arg-type]


def on_disk(folder: Path) -> list[str]:
    """Return the names of all files."""
    return sorted(path.name for path in folder.iterdir())


def both(*points: str) -> list[str]:
    """Return the file names of complete checkpoints."""
    return sorted(f"{kind}_state_{point}.th" for kind in ("model", "training") for point in points)


def test_a_full_disk_is_reported_and_earlier_checkpoints_survive(tmp_path: Path) -> None:
    checkpoints = AtomicCheckpointer(tmp_path, keep_most_recent_by_count=1)
    save(checkpoints, 0, 10)
    message = f"{tmp_path}/model_state_e0_b20.th.*File too large.*earlier checkpoints are complete"
    with disk_of(100_000), pytest.raises(ConfigurationError, match=message):
        save(checkpoints, 0, 20, weights=torch.ones(100_000))
    latest = AtomicCheckpointer(tmp_path).load_checkpoint()
    assert latest is not None and latest.trainer_state["batches_in_epoch_completed"] == 10
    assert on_disk(tmp_path) == both("e0_b10")
    save(checkpoints, 0, 30)
    assert on_disk(tmp_path) == both("e0_b30")
    first = AtomicCheckpointer(tmp_path / "other")
    with disk_of(100_000), pytest.raises(ConfigurationError, match="there is no checkpoint yet"):
        save(first, 0, 20, weights=torch.ones(100_000))


def test_an_incomplete_checkpoint_does_not_count_and_batch_50_is_not_removed_with_batch_5(tmp_path: Path) -> None:
    checkpoints = AtomicCheckpointer(tmp_path)
    for batches in (5, 30, 50):
        save(checkpoints, 1, batches)
    assert on_disk(tmp_path) == both("e1_b30", "e1_b50")
    for name in ("training_state_e1_b60.th", "model_state_e1_b70.th", "model_state_e1_b70.th.0123456789ab.partial"):
        (tmp_path / name).write_bytes(b"a killed run")
    AtomicCheckpointer(tmp_path).load_checkpoint()
    assert str(AtomicCheckpointer(tmp_path).find_latest_checkpoint()).count("e1_b50") == 2
    save(checkpoints, 1, 60)
    assert on_disk(tmp_path) == both("e1_b50", "e1_b60")


def test_a_checkpoint_of_a_newer_version_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(AtomicCheckpointer(tmp_path), 1, 5)
    assert AtomicCheckpointer(tmp_path).load_checkpoint() is not None
    monkeypatch.setattr(trainer_module, "VERSION", 2)
    save(AtomicCheckpointer(tmp_path), 1, 6)
    monkeypatch.undo()
    with pytest.raises(ConfigurationError, match="expected version 1, got 2") as caught:
        AtomicCheckpointer(tmp_path).load_checkpoint()
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


SHORT, LONG = {"save_every_num_batches": 20}, {"save_every_num_batches": 150}
DUE: list[tuple[dict[str, Any], list[tuple[int, int]]]] = [
    ({}, [(0, EPOCH), (1, EPOCH)]),
    (SHORT, [(0, 20), (0, 40), (0, 60), (0, 80), (0, EPOCH), (1, 20), (1, 40), (1, 60), (1, 80), (1, EPOCH)]),
    ({"save_every_num_batches": EPOCH, "save_completed_epochs": False}, [(0, EPOCH), (1, EPOCH)]),
    ({**LONG, "save_completed_epochs": False}, [(1, 50)]),
    ({"save_every_num_minutes": 1.25, "save_completed_epochs": False}, [(0, 75), (1, 50)]),
]


@pytest.mark.parametrize(("keys", "expected"), DUE)
def test_a_checkpoint_is_due_at_an_epochs_end_by_batches_and_by_minutes(
    keys: dict[str, Any], expected: list[tuple[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch takes a second. The time of day does not count, because it may be set back."""
    clock = SimpleNamespace(monotonic=lambda: clock.now, time=lambda: -clock.now, now=0.0)
    monkeypatch.setattr(trainer_module, "time", clock)
    monkeypatch.setattr("allennlp.training.checkpointer.time", clock)
    checkpoints = Checkpointer.from_params(Params({"type": "atomic", **keys}), serialization_dir=str(tmp_path))
    saved = []
    for epochs, batches in [(0, n) for n in range(1, EPOCH + 1)] + [(1, n) for n in range(EPOCH + 1)] + [(2, 0)]:
        clock.now = EPOCH * epochs + batches
        ask(checkpoints, epochs, batches)
        if batches == EPOCH:
            checkpoints.save_or_stop(trainer_at(epochs, batches), ends_epoch=True)
        point = checkpoints._last_save_num_epochs_completed, checkpoints._last_save_num_batches_in_epoch_completed
        if point == (epochs, batches):
            saved.append(point)
    assert saved == expected


def test_keys_that_would_save_nothing_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="'keep_most_recent_by_count': expected 1 or more, got 0"):
        AtomicCheckpointer(tmp_path, keep_most_recent_by_count=0)


class Stopped(Exception):
    """A run was stopped by its test."""


Place = int | tuple[str, int]
"""The end of the n-th batch of training, or of "heldout", or the n-th call of the function with this name."""
TRAINER = "allennlp.training.gradient_descent_trainer"
BEST = f"{TRAINER}.GradientDescentTrainer._save_model_state"
END_OF_TRAINING = f"{TRAINER}.GradientDescentTrainer._finalize_best_model_state", 1
ARCHIVE = "allennlp.commands.train.archive_model", 1
METRICS = f"{TRAINER}.common_util.dump_metrics"
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
    batches = ShardsLoader.__iter__

    def counted(self: ShardsLoader) -> Any:
        for batch in batches(self):
            given[-1] += self.endless and bool(batch)
            yield batch

    for part, place in enumerate([*stops, None]):
        given.append(0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ShardsLoader, "__iter__", counted)
            if place is None:
                train(keys, run, recover=part > 0)
            else:
                interrupt_at(patch, place, stop)
                with pytest.raises(Stopped):
                    train(keys, run, recover=part > 0)
    return given


@pytest.fixture(scope="module", params=LOADERS)
def undisturbed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """Return a config, and what an uninterrupted run of it ends with."""
    folder = tmp_path_factory.mktemp(request.param)
    keys = config(folder, request.param)
    train(keys, folder / "run")
    assert len(list((folder / "run").glob("*_state_*.th"))) == 4
    return keys, end_of(folder / "run")


@pytest.mark.slow
def test_a_run_that_was_stopped_anywhere_ends_like_an_uninterrupted_one_and_reads_no_batch_twice(
    undisturbed: tuple[Any, Any], tmp_path: Path
) -> None:
    """Each part continues after the last checkpoint: batches 4 and 6 of each epoch."""
    keys, wanted = undisturbed
    stops: list[Place] = [1, 5, ("heldout", 2), (BEST, 1), 9, (METRICS, 3), ("heldout", 1), END_OF_TRAINING, ARCHIVE]
    assert train_with_stops(keys, tmp_path / "run", *stops) == [1, 5, 2, 0, 3, 6, 0, 0, 0, 0]
    assert differences(end_of(tmp_path / "run"), wanted) == []


@pytest.mark.slow
def test_a_moving_average_and_both_optimizers_of_muon_are_kept(tmp_path: Path) -> None:
    trainer = {"moving_average": {"type": "exponential", "decay": 0.9}, "optimizer": {"type": "muon"}}
    keys = config(tmp_path, "sentence_batches", **trainer)
    train(keys, tmp_path / "undisturbed")
    train_with_stops(keys, tmp_path / "run", 5, ("heldout", 1), (BEST, 1))
    assert differences(end_of(tmp_path / "run"), end_of(tmp_path / "undisturbed")) == []


@pytest.mark.slow
@pytest.mark.parametrize("undisturbed", ["sentence_batches"], indirect=True)
def test_a_signal_saves_a_checkpoint_and_the_run_ends_like_an_uninterrupted_one(
    undisturbed: tuple[Any, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys, wanted = undisturbed
    run = tmp_path / "run"
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    signalled: list[tuple[Place, str]] = [
        (3, "e0_b3"),
        (("heldout", 2), "e0_b6"),
        ((METRICS, 2), "e1_b6"),  # of the second epoch; the run resumes at the end of the first one
    ]
    for place, saved in signalled:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as stopped:
            interrupt_at(patch, place, terminate)
            train(keys, run, recover=run.exists())
        assert stopped.value.code == 128 + signal.SIGTERM
        (line,) = [line for line in capsys.readouterr().err.splitlines() if "SIGTERM" in line]
        assert "recover" in line
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
        assert sorted(run.glob("model_state_*"))[-1].stem == f"model_state_{saved}"
        assert not (run / "model.tar.gz").exists()
    train(keys, run, recover=True)
    assert differences(end_of(run), wanted) == []


def test_before_the_first_checkpoint_a_stopped_run_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["allennlp", "train", "a b.jsonnet", "-s", "run"])
    reading = "elmo_plugin.pretraining.vocabulary.shard_lines"
    monkeypatch.setattr(reading, lambda path: signal.raise_signal(signal.SIGINT))
    with pytest.raises(SystemExit) as stopped:
        train(config(tmp_path, "unrolled_streams"), tmp_path / "run")
    assert stopped.value.code == 128 + signal.SIGINT
    said = capsys.readouterr().err
    assert "SIGINT" in said and "allennlp train 'a b.jsonnet' -s run --force" in said


def test_another_number_of_processes_is_rejected(tmp_path: Path) -> None:
    keys = config(tmp_path, "unrolled_streams")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stopped):
        interrupt_at(patch, 5, stop)
        train(keys, tmp_path / "run")
    with pytest.raises(ConfigurationError, match=r"expected 1 processes.*got 2; resume with 1"):
        train({**keys, "distributed": {"cuda_devices": [-1, -1]}}, tmp_path / "run", recover=True)


@pytest.mark.parametrize(
    ("block", "value", "facts"),
    [
        ("data_loader", {"batch_size": 2}, "unrolled_streams.*MultiProcessDataLoader"),
        ("trainer", {"callbacks": ["exact_resume"]}, "atomic.*Checkpointer"),
    ],
)
def test_parts_that_cannot_resume_are_rejected(block: str, value: Any, facts: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"'[a-z.]*{block}.*{facts}"):
        keys = config(tmp_path, "sentence_batches", learning_rate_scheduler=None)
        train({**keys, block: value}, tmp_path / "run")


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (ProcessExitedException("process 1 …", 1, 7, exit_code=143), SystemExit, "143"),
        (ProcessExitedException("process 1 …", 1, 7, exit_code=1), SystemExit, "process 1 .*force=True"),
        (
            ProcessRaisedException("…\na.b.ConfigurationError: 'key': wrong\n", 1, 7),
            ConfigurationError,
            "^'key': wrong$",
        ),
    ],
)
def test_what_happens_to_a_process_happens_to_the_run(
    error: Exception, raised: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spawn(*args: Any, **kwargs: Any) -> None:
        raise error

    monkeypatch.setattr(train_command.mp, "spawn", spawn)
    keys = config(tmp_path, "unrolled_streams")
    with pytest.raises(raised, match=message):
        train({**keys, "distributed": {"cuda_devices": [-1, -1]}}, tmp_path / "run")


def train_with(environment: dict[str, str], keys: dict[str, Any], run: Path) -> None:
    """Train, or resume, in a process that `tests.killer` kills as its environment says."""
    os.environ |= environment
    torch.set_num_threads(1)  # as in the process of the tests; sums differ in their last bits otherwise
    train(keys, run, recover=run.exists())


@pytest.mark.slow
@pytest.mark.parametrize("undisturbed", ["unrolled_streams"], indirect=True)
def test_a_run_killed_twice_ends_bit_for_bit_like_an_uninterrupted_one(
    undisturbed: tuple[Any, Any], tmp_path: Path
) -> None:
    keys, wanted = undisturbed
    run = tmp_path / "run"
    for environment in ({"KILL_AFTER": "5"}, {"KILL_BEFORE": "model_state_e1_b4.th"}):
        process = context().Process(target=train_with, args=(environment, keys, run))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    # Only the checkpoint that was being written is lost.
    assert (run / "training_state_e1_b4.th").exists()
    assert sorted(path.name for path in run.glob("model_state*.th")) == ["model_state_e0_b4.th", "model_state_e0_b6.th"]
    train(keys, run, recover=True)
    assert differences(end_of(run), wanted) == []
    assert len(list(run.glob("*_state_*.th"))) == 4
    assert not list(run.glob("*.partial"))


def of_two_processes(folder: Path) -> dict[str, Any]:
    """Return the config of a run in two processes, the last of which `tests.killer` may stop."""
    keys = config(folder, "unrolled_streams", callbacks=["exact_resume", "stop"])
    return {**keys, "distributed": {"cuda_devices": [-1, -1]}}


@pytest.mark.slow
def test_two_processes_stop_after_the_same_batch_and_each_restores_its_own_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_command.mp, "spawn", start_processes)
    keys = of_two_processes(tmp_path)
    train(keys, tmp_path / "undisturbed")
    (tmp_path / "stop_after").write_text("3")
    with pytest.raises(SystemExit) as stopped:
        train(keys, tmp_path / "run")
    assert stopped.value.code == 128 + signal.SIGTERM
    assert (tmp_path / "run/model_state_e0_b3.th").exists()
    train(keys, tmp_path / "run", recover=True)
    for name in ("best.th", f"model_state_e1_b{BATCHES}.th"):
        found, wanted = (torch.load(tmp_path / each / name) for each in ("run", "undisturbed"))
        torch.testing.assert_close(found, wanted, atol=1e-6, rtol=0)
    found, wanted = (json.loads((tmp_path / each / "metrics.json").read_text()) for each in ("run", "undisturbed"))
    assert found["training_loss"] == pytest.approx(wanted["training_loss"])
