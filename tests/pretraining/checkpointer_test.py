"""The files on disk after a save, after a kill during a save, and after the disk is full."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.training.checkpointer import Checkpointer
from allennlp.training.trainer import TrainerCheckpoint
from torch import distributed

from elmo_plugin.pretraining import AtomicCheckpointer, checkpointer
from tests.distributed_jobs import in_two_processes
from tests.full_disk import disk_of

BATCHES = 100


class Trainer(SimpleNamespace):
    """The parts of a trainer that a checkpointer uses: completed epochs and batches, and weights to save."""

    data_loader = range(2 * BATCHES)
    _num_gradient_accumulation_steps = 2
    cuda_device = torch.device("cpu")
    is_primary = True
    _should_validate_this_epoch = False
    weights = torch.ones(2)

    def get_checkpoint_state(self) -> Optional[TrainerCheckpoint]:
        """Return a checkpoint state in the first process, as AllenNLP's trainer does."""
        point = {"epochs_completed": self.epochs, "batches_in_epoch_completed": self.batches}
        return TrainerCheckpoint({"weights": self.weights}, point) if self.is_primary else None


def ask(checkpoints: AtomicCheckpointer, epochs: int, batches: int, **trainer: Any) -> bool:
    """Return whether it saves a checkpoint after this batch."""
    return checkpoints.maybe_save_checkpoint(Trainer(epochs=epochs, batches=batches, **trainer), epochs, batches)


def save(checkpoints: AtomicCheckpointer, epochs: int, batches: int, **trainer: Any) -> None:
    """Save a checkpoint."""
    checkpoints.save_checkpoint(Trainer(epochs=epochs, batches=batches, **trainer))


def on_disk(folder: Path) -> list[str]:
    """Return the names of all files."""
    return sorted(path.name for path in folder.iterdir())


def both(*points: str) -> list[str]:
    """Return the file names of complete checkpoints."""
    return sorted(f"{kind}_state_{point}.th" for kind in ("model", "training") for point in points)


@pytest.mark.parametrize("size", [0, 200, 100_000])
def test_a_full_disk_is_reported_and_earlier_checkpoints_survive(size: int, tmp_path: Path) -> None:
    checkpoints = AtomicCheckpointer(tmp_path, keep_most_recent_by_count=1)
    save(checkpoints, 0, 10)
    with disk_of(size), pytest.raises(ConfigurationError) as error:
        save(checkpoints, 0, 20, weights=torch.ones(100_000))
    kind = "training" if size < 1000 else "model"
    assert f"{tmp_path}/{kind}_state_e0_b20.th" in str(error.value) and "File too large" in str(error.value)
    assert set(on_disk(tmp_path)) - {"training_state_e0_b20.th"} == set(both("e0_b10"))
    latest = AtomicCheckpointer(tmp_path).load_checkpoint()
    assert latest is not None
    assert latest.trainer_state["batches_in_epoch_completed"] == 10
    save(checkpoints, 0, 30)
    assert on_disk(tmp_path) == both("e0_b30")


def test_an_error_that_the_disk_did_not_cause_is_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise RuntimeError("CUDA error: an illegal memory access")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        save(AtomicCheckpointer(tmp_path), 0, 1)
    assert on_disk(tmp_path) == []


def test_an_incomplete_checkpoint_does_not_count_and_the_next_save_removes_it(tmp_path: Path) -> None:
    save(AtomicCheckpointer(tmp_path), 0, 10)
    for name in ("training_state_e0_b20.th", "model_state_e0_b30.th", "checkpoint_of_0.partial"):
        (tmp_path / name).write_bytes(b"a killed run")
    checkpoints = AtomicCheckpointer(tmp_path)
    assert checkpoints.find_latest_checkpoint() == tuple(
        str(tmp_path / name) for name in ("model_state_e0_b10.th", "training_state_e0_b10.th")
    )
    save(checkpoints, 0, 20)
    assert on_disk(tmp_path) == both("e0_b10", "e0_b20")


def test_the_two_latest_are_kept_and_batch_50_is_not_removed_with_batch_5(tmp_path: Path) -> None:
    checkpoints = AtomicCheckpointer(tmp_path)
    for batches in (5, 30, 50):
        save(checkpoints, 1, batches)
    assert on_disk(tmp_path) == both("e1_b30", "e1_b50")


def test_a_checkpoint_is_due_by_minutes_by_batches_and_at_an_epochs_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(time=lambda: clock.now, now=0.0)
    monkeypatch.setattr(checkpointer, "time", clock)
    monkeypatch.setattr("allennlp.training.checkpointer.time", clock)
    checkpoints = AtomicCheckpointer(tmp_path, save_every_num_minutes=10, save_every_num_batches=20)
    saved = []
    for epochs, batches, minutes in [
        (0, 1, 9.9), (0, 2, 10), (0, 3, 19.9), (0, 21, 19.9), (0, 22, 19.9), (0, 23, 29.8), (0, 24, 29.9),
        (0, BATCHES, 99), (1, 0, 99), (1, 1, 99), (1, 20, 99),
    ]:  # fmt: skip
        clock.now = 60 * minutes
        if ask(checkpoints, epochs, batches):
            saved.append((epochs, batches))
    assert saved == [(0, 2), (0, 22), (0, 24), (1, 0), (1, 20)]


def test_a_resumed_run_counts_batches_from_the_checkpoint(tmp_path: Path) -> None:
    save(AtomicCheckpointer(tmp_path), 2, 10)
    resumed = AtomicCheckpointer(tmp_path, save_every_num_batches=5)
    resumed.load_checkpoint()
    assert [ask(resumed, 2, batches) for batches in (11, 14, 15)] == [False, False, True]


def ask_with_a_clock_of_ones_own(folder: Path) -> tuple[list[bool], list[int]]:
    """Ask in one of two processes, of which only the first is due to save."""
    rank = distributed.get_rank()
    checkpoints = AtomicCheckpointer(folder, save_every_num_minutes=10)
    asked: list[int] = []
    checkpoints.before_saving.append(lambda: asked.append(rank))
    answers = [ask(checkpoints, 0, 1, is_primary=rank == 0)]
    checkpoints._last_save_time -= 1000 * (rank == 0)
    answers.append(ask(checkpoints, 0, 2, is_primary=rank == 0))
    checkpoints._last_save_time -= 1000 * (rank == 1)
    answers.append(ask(checkpoints, 0, 3, is_primary=rank == 0))
    return answers, asked


def test_the_first_process_decides_for_all(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    answers = in_two_processes(ask_with_a_clock_of_ones_own, tmp_path / "run", tmp_path / "checkpoints")
    assert answers == [([False, True, False], [0]), ([False, True, False], [1])]
    assert on_disk(tmp_path / "checkpoints") == both("e0_b2")


def test_the_keys_of_default_and_minutes_work(tmp_path: Path) -> None:
    keys = {"type": "atomic", "save_every_num_minutes": 0.5, "keep_most_recent_by_count": 1}
    checkpoints = Checkpointer.from_params(Params(dict(keys)), serialization_dir=str(tmp_path))
    for batches in (1, 2):
        save(checkpoints, 0, batches)  # type: ignore[arg-type]
    assert on_disk(tmp_path) == both("e0_b2")
    with pytest.raises(ConfigurationError, match=r"'save_every_num_minutes'.*'save_every_num_seconds'"):
        Checkpointer.from_params(Params({**keys, "save_every_num_seconds": 30}), serialization_dir=str(tmp_path))
