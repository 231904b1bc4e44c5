"""Repairs of how AllenNLP trains a model that holds a biLM, validates it, and continues a run."""

import json
import logging
import re
import zipfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.common import count_labels, is_ours, labels_not_in_train
from elmo_plugin.compat.models import keeps_weights
from elmo_plugin.compat.patching import Function, replaces

logger = logging.getLogger(__name__)

LOSSES = ("loss", "batch_loss", "reg_loss", "batch_reg_loss")
"""The metrics that the trainer adds to those of the model."""
FALLING = ("loss", "perplexity", "oov_rate")
"""The ends of the names of metrics that are better when they are lower."""


def trust_numpy_scalars() -> None:
    """Let `--recover` read NumPy numbers in a training state.

    Symptom: `UnpicklingError: Weights only load failed` on `--recover` with the scheduler `cosine`, with `combined`
    around it, or with a model whose metric is a NumPy number. Cause: torch 2.6 made `torch.load(weights_only=True)` the
    default, but `cosine` computes the learning rate with `np.cos`, and the metric tracker saves the best metrics. Only
    NumPy's number types are added to the types that may be read; the check stays on.
    Guard: adding a type twice has no effect.
    """
    rebuild_scalar: Any = np.float64(0).__reduce__()[0]  # NumPy 2 renamed its module; old runs have the old name
    modules = ("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar")
    dtypes = {type(np.dtype(code)) for code in "?bhilqBHILQefd"}
    torch.serialization.add_safe_globals([(rebuild_scalar, module) for module in modules] + [np.dtype, *dtypes])


@replaces("allennlp.training.callbacks.confidence_checks.ConfidenceChecksCallback.on_start")
def check_only_first_batches(original: Function, self: Any, trainer: Any, *args: Any, **kwargs: Any) -> None:
    """Let a run that `--recover` continues do without the checks of the first batch, which its start has passed.

    Symptom: a resumed run needs more memory with each batch, and a frozen biLM computes its words again for each batch.
    Cause: AllenNLP's callback `confidence_checks`, one of the default callbacks, hooks every module of the model, notes
    each call, and removes the hooks after the first batch of the first epoch, which a resumed run does not have.
    Guard: a run from the start is checked as before.
    """
    original(self, trainer, *args, **kwargs)
    is_resumed = trainer._start_after_epochs_completed or trainer._start_after_batches_in_epoch_completed
    if hasattr(self, "_verification") and is_resumed:
        self._verification.destroy_hooks()


@replaces("allennlp.training.gradient_descent_trainer.GradientDescentTrainer._try_train")
def finish_a_finished_run(original: Function, self: Any) -> tuple[dict[str, Any], int]:
    """Let `--recover` finish a run that was killed after its last epoch as if it had not been killed.

    Symptom: `metrics.json` lacks the metrics of training and validation, and a run that ran out of patience trains for
    another epoch. Cause: the trainer has the metrics only of epochs that it trains, and checks its patience only after
    an epoch. The metrics are now read from the last `metrics_epoch_….json`.
    Guard: a run that has not run out of patience trains the same epochs, and the metrics of a run that trains an epoch
    are not changed.
    """
    if self._metric_tracker.should_stop_early():
        self._num_epochs = self._start_after_epochs_completed
    metrics, epoch = original(self)
    last = Path(self._serialization_dir or "", f"metrics_epoch_{epoch}.json")
    if "epoch" not in metrics and self._serialization_dir and last.exists():
        metrics = {**json.loads(last.read_text(encoding="utf-8")), **metrics}
    return metrics, epoch


@replaces("allennlp.training.checkpointer.Checkpointer.load_checkpoint")
def load_newest_complete_checkpoint(original: Function, self: Any) -> Any:
    """Let `--recover` continue from the newest checkpoint that is complete.

    Symptom: `[Errno 22] Invalid argument`, `PytorchStreamReader failed …` or `EOFError`, without the name of a file,
    after a run was killed, or the disk was full, while a checkpoint was written. Cause: AllenNLP writes its two files
    under their final names, one after the other, and reads only the newest. Now the newest is left out with a warning,
    and removed, because AllenNLP does not write a file that exists.
    Guard: a checkpoint whose files are complete is read as before, and an error from it is raised.
    """
    points = sorted(self._find_all_checkpoints())
    for point in reversed(points):
        paths = map(Path, (self._model_state_path(*point), self._training_state_path(*point)))
        broken = next((path for path in paths if not (path.is_file() and zipfile.is_zipfile(path))), None)
        if broken is None:
            break
        if point == points[0]:
            raise ConfigurationError(
                f"'{broken}': expected a complete file, got one that is cut off or missing, and there is no checkpoint "
                "before it; start again with --force"
            )
        logger.warning("'%s' is cut off or missing; the run continues from the checkpoint before", broken)
        if self._is_primary:
            self._remove_checkpoint(*point)
    return original(self)


@replaces("allennlp.training.gradient_descent_trainer.GradientDescentTrainer.from_partial_objects")
def warn_of_regexes_without_parameters(
    original: Function,
    cls: type,
    model: Any,
    *args: Any,
    no_grad: Optional[list[str]] = None,
    **kwargs: Any,
) -> Any:
    """Warn before training of each regex of `regularizer` and `no_grad` that has no effect.

    Symptom: with a name that the model does not have, the penalty is 0, or the parameters are trained, without any
    message. Cause: AllenNLP warns only of the regexes of initializers and parameter groups.
    Guard: there are no other warnings for a model without a biLM, and every model is trained as before.
    """
    if any(map(keeps_weights, model.modules())):
        trained = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
        for regex, _ in getattr(model._regularizer, "_regularizers", []):  # there may be no regularizer
            if not any(re.search(regex, name) for name, is_trained in trained.items() if is_trained):
                logger.warning("'regularizer': the regex '%s' matches no parameter that is trained", regex)
        for regex in no_grad or []:
            if not any(re.search(regex, name) for name in trained):
                logger.warning("'no_grad': the regex '%s' matches no parameter", regex)
    return original(cls, model, *args, no_grad=no_grad, **kwargs)


@replaces("allennlp.training.gradient_descent_trainer.GradientDescentTrainer.__init__")
def check_validation(original: Function, self: Any, *args: Any, **kwargs: Any) -> None:
    """Reject a `validation_metric` that a model does not have; warn of a wrong sign, and of labels not in training.

    Symptom: an empty file gives metrics of 0; `+f1` for a tagger fails after a whole epoch; `-accuracy` keeps the worst
    epoch; scores are low for a label that training could not learn. Cause: AllenNLP's readers take an empty file;
    AllenNLP looks for the metric in what the first validation returns, and takes labels from both data sets.
    Guard: only models of this package are checked. Another model, and a model of another package that inherits from one
    of ours, may have an attribute `metric_names`, and other metrics. Labels are compared if both data sets are whole
    and in memory, so neither in a distributed run nor with `max_instances_in_memory`.
    """
    original(self, *args, **kwargs)
    if not is_ours(type(self.model)) or self._validation_data_loader is None:
        return
    for key, loader in (("train", self.data_loader), ("validation", self._validation_data_loader)):
        if getattr(loader, "_instances", None) == []:
            raise ConfigurationError(f"'{key}_data_path': expected at least one text, got none")
    names = [*getattr(self.model, "metric_names", self.model.get_metrics)(), *LOSSES]
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


def _labels_in_memory(loader: Any) -> dict[str, Counter[str]]:
    """Count the labels that a loader of AllenNLP has in memory."""
    labels = defaultdict[str, Counter[str]](Counter)
    for instance in getattr(loader, "_instances", None) or getattr(loader, "instances", None) or ():
        count_labels(instance, labels)
    return labels
