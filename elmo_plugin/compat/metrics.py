"""A check of the metric that training watches."""

from typing import Any

from allennlp.common.checks import ConfigurationError
from allennlp.training.gradient_descent_trainer import GradientDescentTrainer

from elmo_plugin.common import is_ours
from elmo_plugin.compat.patching import Function, replace_once

LOSSES = ("loss", "batch_loss", "reg_loss", "batch_reg_loss")
"""The metrics that the trainer adds to those of the model."""


def check_validation_metrics() -> None:
    """Reject a `validation_metric` that a model does not have, before the first batch.

    Symptom: `+f1` for a tagger fails after a whole epoch. Cause: AllenNLP looks for the metric in what the first
    validation returns.
    Guard: only models of this package are asked for `metric_names`. Another model, and a model of another package that
    inherits from one of ours, may have an attribute of that name, and other metrics.
    """

    def init(original: Function, self: GradientDescentTrainer, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        metric_names = getattr(self.model, "metric_names", None) if is_ours(type(self.model)) else None
        if metric_names is None or self._validation_data_loader is None:
            return
        names = [*metric_names(), *LOSSES]
        for _, name in self._metric_tracker.tracked_metrics:
            if name not in names:
                raise ConfigurationError(
                    f"'trainer.validation_metric': expected + or - and one of {', '.join(names)}, got '{name}'"
                )

    replace_once(GradientDescentTrainer, "__init__", init)
