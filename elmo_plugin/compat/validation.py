"""Checks of what training validates on, before the first batch: the metric that it watches, and the labels."""

import logging
from collections import Counter, defaultdict
from typing import Any

from allennlp.common.checks import ConfigurationError
from allennlp.training.gradient_descent_trainer import GradientDescentTrainer

from elmo_plugin.common import is_ours, labels_not_in_train, labels_of
from elmo_plugin.compat.patching import Function, replace_once

logger = logging.getLogger(__name__)

LOSSES = ("loss", "batch_loss", "reg_loss", "batch_reg_loss")
"""The metrics that the trainer adds to those of the model."""
FALLING = ("loss", "perplexity", "oov_rate")
"""The ends of the names of metrics that are better when they are lower."""


def check_validation() -> None:
    """Reject a `validation_metric` that a model does not have; warn of a wrong sign, and of labels not in training.

    Symptom: `+f1` for a tagger fails after a whole epoch; `-accuracy` keeps the worst epoch; scores are low for a label
    that training could not learn. Cause: AllenNLP looks for the metric in what the first validation returns, and takes
    labels from both data sets.
    Guard: only models of this package are checked. Another model, and a model of another package that inherits from one
    of ours, may have an attribute `metric_names`, and other metrics. Labels are compared if both data sets are whole
    and in memory, so neither in a distributed run nor with `max_instances_in_memory`.
    """

    def init(original: Function, self: GradientDescentTrainer, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        metric_names = getattr(self.model, "metric_names", None) if is_ours(type(self.model)) else None
        if metric_names is None or self._validation_data_loader is None:
            return
        names = [*metric_names(), *LOSSES]
        for factor, name in self._metric_tracker.tracked_metrics:
            if name not in names:
                raise ConfigurationError(
                    f"'trainer.validation_metric': expected + or - and one of {', '.join(names)}, got '{name}'"
                )
            falls = name.endswith(FALLING)
            if falls == (factor > 0):
                kept, meant = ("highest", f"-{name}") if falls else ("lowest", f"+{name}")
                logger.warning(
                    "'trainer.validation_metric': keeps the epoch with the %s %s; write '%s' for the other end",
                    *(kept, name, meant),
                )
        if not self._distributed:
            trained, validated = map(_labels_in_memory, (self.data_loader, self._validation_data_loader))
            for message in labels_not_in_train("validation", validated, trained) if trained else ():
                logger.warning("%s", message)

    replace_once(GradientDescentTrainer, "__init__", init)


def _labels_in_memory(loader: Any) -> dict[str, Counter[str]]:
    """Count the labels that a loader of AllenNLP has in memory."""
    labels: dict[str, Counter[str]] = defaultdict(Counter)
    for instance in getattr(loader, "_instances", None) or getattr(loader, "instances", None) or ():
        for name, found in labels_of(instance):
            labels[name].update(found)
    return labels
