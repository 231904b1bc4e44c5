"""The learning rate, batch by batch, against the formula."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.training.learning_rate_schedulers import LearningRateScheduler
from torch.optim import SGD, Optimizer

from elmo_plugin.pretraining import WarmUpCosine

EPOCHS, PER_EPOCH, WARMUP = 3, 20, 12
TOTAL = EPOCHS * PER_EPOCH
RATES = [0.5, 0.003]


def optimizer() -> SGD:
    """Return an optimizer with two groups of parameters, each with its own learning rate."""
    return SGD([{"params": [torch.nn.Parameter(torch.ones(1))], "lr": rate} for rate in RATES], lr=1.0)


def schedule(of: Optimizer, warmup: int = WARMUP, epochs: int = EPOCHS) -> LearningRateScheduler:
    """Build the schedule from a config, as the trainer does."""
    config = Params({"type": "warmup_cosine", "warmup_steps": warmup})
    made = LearningRateScheduler.from_params(config, optimizer=of, num_epochs=epochs, num_steps_per_epoch=PER_EPOCH)
    assert isinstance(made, WarmUpCosine)
    return made


def rates(of: Optimizer) -> list[float]:
    """Return the current learning rate of each group."""
    return [group["lr"] for group in of.param_groups]


def part(step: int, warmup: int, total: int = TOTAL) -> float:
    """Return the expected factor of the learning rate at a batch, counted from 1."""
    if step < warmup:
        return step / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


def test_the_first_batch_the_peak_the_middle_and_the_last_batch_have_known_rates() -> None:
    trained = optimizer()
    scheduler = schedule(trained)
    for step, wanted in ((1, 0.5 / 12), (6, 0.25), (12, 0.5), (36, 0.25), (60, 0.0)):
        scheduler.step_batch(step)
        assert rates(trained)[0] == pytest.approx(wanted)


def resume(path: Path, epochs: int) -> tuple[SGD, LearningRateScheduler]:
    """Build an optimizer and a schedule as a recovered run does, from the states in a file."""
    trained = optimizer()
    scheduler = schedule(trained, epochs=epochs)
    states: dict[str, Any] = torch.load(path, weights_only=True)
    trained.load_state_dict(states["optimizer"])
    scheduler.load_state_dict(states["scheduler"])
    return trained, scheduler


@pytest.mark.parametrize("epochs", [EPOCHS, 2 * EPOCHS])
@pytest.mark.parametrize("counted", [True, False])
def test_a_recovered_run_continues_with_the_next_step_to_the_end_in_its_config(
    tmp_path: Path, epochs: int, counted: bool
) -> None:
    trained = optimizer()
    scheduler = schedule(trained)
    for behind in range(TOTAL):
        torch.save({"optimizer": trained.state_dict(), "scheduler": scheduler.state_dict()}, tmp_path / "state")
        resumed, its_scheduler = resume(tmp_path / "state", epochs)
        assert rates(resumed) == rates(trained)
        its_scheduler.step_batch(behind + 1 if counted else None)
        wanted = part(behind + 1, WARMUP, epochs * PER_EPOCH)
        assert rates(resumed) == pytest.approx([wanted * rate for rate in RATES])
        scheduler.step_batch(behind + 1)


def test_a_warm_up_as_long_as_the_run_is_rejected() -> None:
    for warmup in (TOTAL, -1):
        with pytest.raises(ConfigurationError, match=f"'warmup_steps'.* 60 .*{warmup}"):
            schedule(optimizer(), warmup)
    config = Params({"type": "warmup_cosine"})
    with pytest.raises(ConfigurationError, match=r"'warmup_cosine'.*data loader"):
        LearningRateScheduler.from_params(config, optimizer=optimizer(), num_epochs=3, num_steps_per_epoch=None)
