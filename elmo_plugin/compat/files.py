"""Repairs of `allennlp train` for runs that are killed or run out of disk space."""

import json
import os
from pathlib import Path
from typing import Any, Optional, Union

from allennlp.commands import train
from allennlp.common import Params
from allennlp.common import util as common_util
from allennlp.common.meta import Meta
from allennlp.data import Vocabulary
from allennlp.data.vocabulary import NAMESPACE_PADDING_FILE
from allennlp.training import GradientDescentTrainer

from elmo_plugin.common import atomic_file, atomic_folder
from elmo_plugin.compat.patching import Function, replace_once

Name = Union[str, "os.PathLike[str]"]


def write_files_atomically() -> None:
    """Let `allennlp train` write its files so that each is complete or does not exist.

    Symptom: a run cannot be recovered if it is killed while `config.json` is written, at the start or at any
    `--recover`. If it is killed while the vocabulary is written, `--recover` of distributed training continues with a
    part of it. A full disk leaves an incomplete `best.th`, `metrics.json` or `model.tar.gz`; the error names no file.
    Cause: AllenNLP writes each file under its final name. Errors are now a `ConfigurationError` with the path.
    Guard: none is needed; the content is the same.
    """

    def to_file(original: Function, self: Any, path: Name, *args: Any, **kwargs: Any) -> None:
        with atomic_file(Path(path)) as partial:
            original(self, partial, *args, **kwargs)

    def dump_metrics(original: Function, file_path: Optional[Name], *args: Any, **kwargs: Any) -> None:
        if not file_path:
            return original(file_path, *args, **kwargs)
        with atomic_file(Path(file_path)) as partial:
            original(partial, *args, **kwargs)

    def save_to_files(original: Function, self: Vocabulary, directory: Name) -> None:
        with atomic_folder(Path(directory), last=NAMESPACE_PADDING_FILE) as partial:
            original(self, partial)

    def save_model_state(original: Function, self: GradientDescentTrainer, path: Name) -> None:
        # With an open file instead of a path, errors of `torch.save` keep their cause.
        with atomic_file(Path(path)) as partial, partial.open("wb") as file:
            original(self, file)

    def archive_model(
        original: Function, serialization_dir: Name, weights: Name = "best.th", *args: Any, **kwargs: Any
    ) -> str:
        if args or "archive_path" in kwargs:
            return str(original(serialization_dir, weights, *args, **kwargs))
        target = Path(serialization_dir, "model.tar.gz")
        with atomic_file(target) as partial:
            original(serialization_dir, weights, partial, **kwargs)
        return str(target)

    replace_once(Params, "to_file", to_file)
    replace_once(Meta, "to_file", to_file)
    replace_once(common_util, "dump_metrics", dump_metrics)
    replace_once(Vocabulary, "save_to_files", save_to_files)
    replace_once(GradientDescentTrainer, "_save_model_state", save_model_state)
    replace_once(train, "archive_model", archive_model)


def repair_recovery_after_the_last_epoch() -> None:
    """Let `--recover` finish a run that was killed after its last epoch as if it had not been killed.

    Symptom: `metrics.json` lacks the metrics of training and validation, and a run that ran out of patience trains for
    another epoch. Cause: the trainer has the metrics only of epochs that it trains, and checks its patience only after
    an epoch. The metrics are now read from the last `metrics_epoch_….json`.
    Guard: nothing is changed if an epoch is trained.
    """

    def try_train(original: Function, self: Any) -> tuple[dict[str, Any], int]:
        if self._metric_tracker.should_stop_early():
            self._num_epochs = self._start_after_epochs_completed
        metrics, epoch = original(self)
        if "epoch" not in metrics and self._serialization_dir:
            last = Path(self._serialization_dir, f"metrics_epoch_{epoch}.json")
            if last.exists():
                metrics = {**json.loads(last.read_text(encoding="utf-8")), **metrics}
        return metrics, epoch

    replace_once(GradientDescentTrainer, "_try_train", try_train)
