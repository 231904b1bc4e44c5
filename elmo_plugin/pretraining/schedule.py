"""The learning rate schedule `warmup_cosine`."""

from math import cos, pi
from typing import Any, Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.training.learning_rate_schedulers import LearningRateScheduler, PolynomialDecay
from torch.optim import Optimizer


@LearningRateScheduler.register("warmup_cosine")
class WarmUpCosine(PolynomialDecay):
    """Raises the learning rate linearly over the first batches, then lowers it along half a cosine to 0 at the end.

    It gets the number of batches of the run from the trainer. AllenNLP's `cosine_with_warmup` needs that number in the
    config, and changes the rate only at the end of an epoch. Source: Loshchilov & Hutter 2017, without restarts.

    Registered as a `LearningRateScheduler` with name `warmup_cosine`.

    >>> import torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    >>> schedule = WarmUpCosine(optimizer, num_epochs=1, num_steps_per_epoch=6, warmup_steps=2)
    >>> rates = []
    >>> for batch in range(1, 7):
    ...     schedule.step_batch(batch)
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 2))
    >>> rates
    [0.5, 1.0, 0.85, 0.5, 0.15, 0.0]

    # Parameters

    optimizer, num_epochs, num_steps_per_epoch
        From the trainer.
    warmup_steps : `Union[int, float]`
        The number of batches until the optimizer's learning rate is reached, or their share of the run, below 1.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        num_epochs: int,
        num_steps_per_epoch: Optional[int] = None,
        warmup_steps: Union[int, float] = 0,
    ) -> None:
        if num_steps_per_epoch is None:
            raise ConfigurationError("'warmup_cosine': expected a data loader with a length, got one without")
        n_steps = num_epochs * num_steps_per_epoch
        if not 0 <= warmup_steps < n_steps:
            raise ConfigurationError(
                f"'warmup_steps': expected 0 or more and less than the {n_steps} batches of the run, or a share below "
                f"1, got {warmup_steps}"
            )
        steps = int(warmup_steps * n_steps) if 0 < warmup_steps < 1 else int(warmup_steps)
        super().__init__(optimizer, num_epochs, num_steps_per_epoch, warmup_steps=steps)

    def get_values(self) -> list[float]:
        """Return the current rate of each parameter group."""
        if self.steps < self.warmup_steps:
            part = self.steps / self.warmup_steps
        else:
            part = (1 + cos(pi * (self.steps - self.warmup_steps) / (self.total_steps - self.warmup_steps))) / 2
        return [part * value for value in self.base_values]

    def state_dict(self) -> dict[str, Any]:
        """Return the number of batches so far. The length of the run comes from the config that resumes it."""
        return {"steps": self.steps, "base_values": self.base_values}
