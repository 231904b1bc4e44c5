"""The learning rate, batch by batch, against the formula."""

from pathlib import Path

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.training.learning_rate_schedulers import LearningRateScheduler
from torch.optim import SGD

PER_EPOCH, WARMUP = 20, 12
RATES = [0.5, 0.003]


def build(warmup: float = WARMUP, epochs: int = 3) -> tuple[SGD, LearningRateScheduler]:
    """Build an optimizer of two groups, each with its own learning rate, and the schedule as the trainer does."""
    optimizer = SGD([{"params": [torch.nn.Parameter(torch.ones(1))], "lr": rate} for rate in RATES], lr=1.0)
    config = Params({"type": "warmup_cosine", "warmup_steps": warmup})
    return optimizer, LearningRateScheduler.from_params(
        config, optimizer=optimizer, num_epochs=epochs, num_steps_per_epoch=PER_EPOCH
    )


def test_the_first_batch_the_peak_the_middle_and_the_last_batch_have_known_rates() -> None:
    optimizer, schedule = build()
    for step, part in ((1, 1 / 12), (6, 0.5), (12, 1.0), (36, 0.5), (60, 0.0)):
        schedule.step_batch(step)
        assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([part * rate for rate in RATES])


def test_a_recovered_run_continues_with_the_next_step_to_the_end_in_its_config(tmp_path: Path) -> None:
    """The config of the recovered run has twice as many epochs."""
    optimizer, schedule = build()
    for step in range(1, 50):
        schedule.step_batch(step)
    torch.save({"optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}, tmp_path / "state")
    recovered, its_schedule = build(epochs=6)
    states = torch.load(tmp_path / "state", weights_only=True)
    recovered.load_state_dict(states["optimizer"])
    its_schedule.load_state_dict(states["schedule"])
    its_schedule.step_batch()
    longer, its_own_schedule = build(epochs=6)
    its_own_schedule.step_batch(50)
    assert [group["lr"] for group in recovered.param_groups] == [group["lr"] for group in longer.param_groups]


@pytest.mark.parametrize(("share", "steps"), [(0.2, 12), (0.01, 0), (0.0, 0)])
def test_a_warm_up_below_1_is_a_share_of_the_run(share: float, steps: int) -> None:
    (optimizer, schedule), (wanted, its_schedule) = build(warmup=share), build(warmup=steps)
    for step in range(1, 61):
        for each in (schedule, its_schedule):
            each.step_batch(step)
        assert [group["lr"] for group in optimizer.param_groups] == [group["lr"] for group in wanted.param_groups]


def test_a_warm_up_as_long_as_the_run_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"'warmup_steps'.* 60 .*60"):
        build(warmup=60)
