"""The learning rate over a run: up, then down along a cosine."""

from math import cos, pi
from typing import Any, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.training.learning_rate_schedulers import LearningRateScheduler
from torch.optim import Optimizer


@LearningRateScheduler.register("warmup_cosine")
class WarmUpCosine(LearningRateScheduler):
    """Linearly up over the first batches, then down to 0 at the run's last along half a cosine.

    The trainer knows how many batches a run has, so nothing need be counted for it. (AllenNLP's `cosine_with_warmup`
    wants to be told, and moves at the end of an epoch only.)

    Source: Loshchilov & Hutter 2017, without restarts.

    Registered as a `LearningRateScheduler` with name `warmup_cosine`.

    # Parameters

    optimizer, num_epochs, num_steps_per_epoch
        From the trainer.
    warmup_steps : `int`
        Batches until the optimizer's own rate is reached.
    """

    def __init__(
        self, optimizer: Optimizer, num_epochs: int, num_steps_per_epoch: Optional[int] = None, warmup_steps: int = 0
    ) -> None:
        if num_steps_per_epoch is None:
            raise ConfigurationError("'warmup_cosine' needs a data loader that knows how many batches an epoch has")
        self.total_steps = num_epochs * num_steps_per_epoch
        if not 0 <= warmup_steps < self.total_steps:
            raise ConfigurationError(
                f"'warmup_steps' is {warmup_steps}; wanted 0 or more, and less than the {self.total_steps} batches "
                "of the run"
            )
        self.warmup_steps = warmup_steps
        self.steps = 0
        super().__init__(optimizer)

    def get_values(self) -> list[float]:
        """The rate of each parameter group now."""
        if self.steps < self.warmup_steps:
            part = self.steps / self.warmup_steps
        else:
            part = (1 + cos(pi * (self.steps - self.warmup_steps) / (self.total_steps - self.warmup_steps))) / 2
        return [part * value for value in self.base_values]

    def step(self, metric: Optional[float] = None) -> None:
        """Nothing happens at the end of an epoch."""

    def step_batch(self, batch_num_total: Optional[int] = None) -> None:
        """Set the rate for a batch, counted from 1."""
        self.steps = self.steps + 1 if batch_num_total is None else batch_num_total
        for group, value in zip(self.optimizer.param_groups, self.get_values(), strict=True):
            group[self.param_group_field] = value

    def state_dict(self) -> dict[str, Any]:
        """The batches so far. How long a run warms up and lasts is said by the config that it goes on with."""
        return {"steps": self.steps, "base_values": self.base_values}
