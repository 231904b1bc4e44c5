"""Distributed runs that are stopped, lose a process, or are resumed with another number of processes."""

import json
import os
import signal
import threading
import time
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.commands import train as train_command
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.training import util as training_util
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from elmo_plugin.pretraining.shards_loader import check_splits
from tests import killer  # noqa: F401  (registers `stop`)
from tests.distributed_jobs import start_processes
from tests.pretraining_runs import config, train

OF_TWO = {
    "unrolled_streams": {"data_loader": {"streams": 2}, "validation_data_loader": {"streams": 2}},
    "sentence_batches": {"data_loader": {"batches_per_epoch": 15}, "trainer": {"num_gradient_accumulation_steps": 1}},
}
OF_ONE = {
    "unrolled_streams": {"data_loader": {"streams": 4}, "validation_data_loader": {"streams": 4}},
    "sentence_batches": {"data_loader": {"batches_per_epoch": 30}, "trainer": {"num_gradient_accumulation_steps": 2}},
}


def run_config(folder: Path, loader: str, processes: int = 1) -> dict[str, Any]:
    """Return the config of a run without dropout, because each process draws other random numbers."""
    keys = config(folder, loader, callbacks=["exact_resume", "stop"])
    keys["model"]["dropout"] = 0.0
    for block, values in (OF_ONE if processes == 1 else OF_TWO)[loader].items():
        keys[block] |= values
    if processes == 2:
        keys["distributed"] = {"cuda_devices": [-1, -1]}
    return keys


@pytest.fixture(autouse=True)
def quickly_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_command.mp, "spawn", start_processes)


def stop_after(batch: int, keys: dict[str, Any], run: Path) -> None:
    """Train, or resume, until SIGTERM reaches the last process after this batch."""
    run.with_name("stop_after").write_text(str(batch))
    with pytest.raises(SystemExit) as stopped:
        train(keys, run, recover=run.exists())
    assert stopped.value.code == 128 + signal.SIGTERM


@pytest.mark.slow
@pytest.mark.parametrize("loader", OF_TWO)
def test_a_run_continues_in_two_processes_and_then_in_one_again(loader: str, tmp_path: Path) -> None:
    alone, both = (run_config(tmp_path, loader, processes) for processes in (1, 2))
    train(alone, tmp_path / "undisturbed")
    run = tmp_path / "run"
    stop_after(6, alone, run)
    stop_after(20, both, run)
    assert (run / "model_state_e1_b5.th").exists()
    train(alone, run, recover=True)
    for name in ("best.th", "model_state_e2_b0.th"):
        found, wanted = (torch.load(tmp_path / each / name) for each in ("run", "undisturbed"))
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=0)
    for epoch in (0, 1):
        found, wanted = (
            json.loads((tmp_path / each / f"metrics_epoch_{epoch}.json").read_text()) for each in ("run", "undisturbed")
        )
        for key in ("training_loss", "validation_perplexity", "validation_n_tokens"):
            assert found[key] == pytest.approx(wanted[key], rel=1e-5), key


@pytest.mark.slow
def test_two_processes_that_cannot_resume_a_run_of_one_say_what_to_write(tmp_path: Path) -> None:
    keys = run_config(tmp_path, "unrolled_streams")
    stop_after(2, keys, tmp_path / "run")
    keys["distributed"] = {"cuda_devices": [-1, -1]}
    with pytest.raises(ConfigurationError, match=r"'data_loader.streams': 2.*'validation_data_loader.streams': 2"):
        train(keys, tmp_path / "run", recover=True)
    keys["trainer"]["num_epochs"] = 3
    with pytest.raises(ConfigurationError, match="does not match"):
        train(keys, tmp_path / "run", recover=True)


def test_the_error_names_numbers_of_processes_that_work() -> None:
    totals = {"data_loader.streams": 12, "validation_data_loader.streams": 8, "trainer.steps": 1}
    splits = {"data_loader.streams": (4, 3), "validation_data_loader.streams": (2, 3), "trainer.steps": (1, 1)}
    with pytest.raises(ConfigurationError, match=r"expected 1, 2, 4 processes.*got 3"):
        check_splits(totals, splits, 3)
    splits = {"data_loader.streams": (6, 4), "validation_data_loader.streams": (2, 4), "trainer.steps": (1, 1)}
    message = r"""'data_loader.streams': 3 .*got 6.*-o '{"data_loader.streams": 3}'"""
    with pytest.raises(ConfigurationError, match=message):
        check_splits(totals, splits, 4)
    check_splits(totals, {**splits, "data_loader.streams": (3, 4)}, 4)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_is_named_and_the_others_end(rank: int, tmp_path: Path) -> None:
    run = tmp_path / "run"

    def kill_one() -> None:
        while not list(run.glob("model_state_e0_b4*")):
            time.sleep(0.01)
        os.kill(sorted(process.pid or 0 for process in active_children())[rank], signal.SIGKILL)

    keys = run_config(tmp_path, "unrolled_streams", processes=2)
    keys["data_loader"]["batches_per_epoch"] = 10_000
    thread = threading.Thread(target=kill_one)
    thread.start()
    with pytest.raises(SystemExit, match=f"process {rank} .*SIGKILL.*recover"):
        train(keys, run)
    thread.join()
    assert not active_children()


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (ProcessExitedException("process 1 …", 1, 7, exit_code=143), SystemExit, "143"),
        (ProcessExitedException("process 1 …", 1, 7, exit_code=-2), SystemExit, "130"),
        (ProcessExitedException("process 1 …", 1, 7, exit_code=1), SystemExit, "process 1 .*force=True"),
        (
            ProcessRaisedException("…\na.b.ConfigurationError: 'key': wrong\n", 1, 7),
            ConfigurationError,
            "^'key': wrong$",
        ),
        (ProcessRaisedException("…\nRuntimeError: nan\n", 1, 7), ProcessRaisedException, "nan"),
    ],
)
def test_what_happens_to_a_process_happens_to_the_run(
    error: Exception, raised: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spawn(*args: Any, **kwargs: Any) -> None:
        raise error

    monkeypatch.setattr(train_command.mp, "spawn", spawn)
    with pytest.raises(raised, match=message):
        train(run_config(tmp_path, "unrolled_streams", processes=2), tmp_path / "run")


def test_blocks_of_a_config_may_be_the_name_of_a_type_or_null(tmp_path: Path) -> None:
    keys = run_config(tmp_path, "unrolled_streams")
    named = {**keys, "data_loader": "unrolled_streams", "validation_data_loader": None}
    Params(named).to_file(str(tmp_path / "config.json"))
    for processes in ({}, {"distributed": {"cuda_devices": [-1, -1]}}):
        training_util.create_serialization_dir(Params({**named, **processes}), str(tmp_path), recover=True, force=False)
    with pytest.raises(ConfigurationError, match="none not in acceptable choices"):
        train({**named, "trainer": "gradient_descent", "data_loader": "none"}, tmp_path / "run")


def test_a_key_that_was_added_before_recovering_is_named(tmp_path: Path) -> None:
    keys = run_config(tmp_path, "unrolled_streams")
    Params(keys).to_file(str(tmp_path / "config.json"))
    changed = Params({**keys, "trainer": {**keys["trainer"], "patience": 3}})
    with pytest.raises(ConfigurationError, match=r"--recover.*'trainer.patience'"):
        training_util.create_serialization_dir(changed, str(tmp_path), recover=True, force=False)


def test_before_the_first_checkpoint_a_stopped_run_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["allennlp", "train", "a b.jsonnet", "-s", "run"])
    reading = "elmo_plugin.pretraining.vocabulary.read_lines"
    monkeypatch.setattr(reading, lambda path: signal.raise_signal(signal.SIGINT))
    with pytest.raises(SystemExit) as stopped:
        train(run_config(tmp_path, "unrolled_streams"), tmp_path / "run")
    assert stopped.value.code == 128 + signal.SIGINT
    said = capsys.readouterr().err
    assert "SIGINT" in said and "allennlp train 'a b.jsonnet' -s run --force" in said
