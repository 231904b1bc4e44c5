"""Repairs of how AllenNLP reads configs and checks metrics."""

import logging
from typing import Any

from allennlp.common import Lazy, Params, from_params
from allennlp.common import params as allennlp_params
from allennlp.common.checks import ConfigurationError
from allennlp.models import Model
from allennlp.training.metric_tracker import MetricTracker

from elmo_plugin.common import check_keys, did_you_mean, unknown_keys
from elmo_plugin.compat.patching import Function, replace_once

logger = logging.getLogger(__name__)


def check_keys_of_components() -> None:
    """Name an unknown key of any component, and check the values of each component of this package.

    Symptom: `dataloader` in a config raises `key "data_loader" is required`, and the trainer ignores `num_epoch`;
    `dropout: null` raises `TypeError: '<' not supported`, `shuffle: null` means false, `crf: 2` means true, and
    `elmo: ''` means the published weights. Cause: `FromParams` first reads the keys that it knows, passes unknown keys
    to a constructor with `**kwargs`, and checks few types and no nulls.
    Guard: components of other packages are built as before. If one of them accepts an unknown key that looks like a
    known one, a warning is logged.
    """
    package = __name__.partition(".")[0]

    def create_kwargs(
        original: Function, constructor: Function, cls: type, params: Params, **extras: Any
    ) -> dict[str, Any]:
        unknown = unknown_keys(cls, constructor, params, extras)
        if cls.__module__.partition(".")[0] == package:
            if unknown:
                raise ConfigurationError(unknown[0])
            check_keys(cls, constructor, params)
        try:
            kwargs: dict[str, Any] = original(constructor, cls, params, **extras)
        except ConfigurationError as error:
            if unknown and str(error).startswith(("Extra parameters passed to ", 'key "')):
                raise ConfigurationError(unknown[0]) from error
            raise
        for message in unknown:
            if "did you mean" in message:
                logger.warning(message)
        return kwargs

    replace_once(from_params, "create_kwargs", create_kwargs)


def check_overrides() -> None:
    """Reject `--overrides` that are not an object.

    Symptom: `allennlp train … -o 5` ends with `TypeError: 'int' object is not iterable`. Cause: AllenNLP uses any JSON
    value as an object.
    Guard: an object is used as before.
    """

    def parse_overrides(original: Function, serialized_overrides: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        overrides = original(serialized_overrides, *args, **kwargs)
        if not isinstance(overrides, dict):
            expected = """expected a JSON object like '{"trainer.num_epochs": 2}'"""
            raise ConfigurationError(f"--overrides: {expected}, got {serialized_overrides!r}")
        return overrides

    replace_once(allennlp_params, "parse_overrides", parse_overrides)


def suggest_names() -> None:
    """Let the errors for a misspelled `type`, and for a metric that the model lacks, suggest names.

    Symptom: `lsmt not in acceptable choices for model.encoder.type`, followed by all choices; `the model did not
    produce that metric`, without the metrics that it produced. Cause: AllenNLP suggests names only in `by_name`.
    Guard: the error for a name that looks like no other lists all choices, as before.
    """

    def pop_choice(original: Function, self: Params, key: str, choices: list[str], *args: Any, **kwargs: Any) -> Any:
        value = self.get(key)
        try:
            return original(self, key, choices, *args, **kwargs)
        except ConfigurationError as error:
            meant = did_you_mean(str(value), choices)
            if not meant:
                raise
            raise ConfigurationError(f"{value} not in acceptable choices for {self.history}{key}{meant}") from error

    def combined_score(original: Function, self: MetricTracker, metrics: dict[str, float]) -> Any:
        for _, name in self.tracked_metrics:
            if name not in metrics:
                raise ConfigurationError(f"'validation_metric': expected + or - and one of {[*metrics]}, got '{name}'")
        return original(self, metrics)

    replace_once(Params, "pop_choice", pop_choice)
    replace_once(MetricTracker, "combined_score", combined_score)


def repair_pretrained_modules() -> None:
    """Let `_pretrained` replace a part that a model builds itself, such as `elmo` in `elmo_tagger`.

    Symptom: `TypeError: Subscripted generics cannot be used …`. Cause: AllenNLP checks whether the module is a
    `Lazy[Elmo]`; now it checks for an `Elmo`. The error for a missing archive also says which key to override.
    Guard: only `_pretrained` and the model type `from_archive` are affected.
    """

    def construct(
        original: Function, owner: str, name: str, annotation: Any, default: Any, params: Params, **extras: Any
    ) -> Any:
        if not (isinstance(params.get(name), Params) and "_pretrained" in params.get(name)):
            return original(owner, name, annotation, default, params, **extras)
        is_lazy = getattr(annotation, "__origin__", None) is Lazy
        inside = annotation.__args__[0] if is_lazy else annotation
        module = load_from_archive(original, owner, name, inside, default, params, **extras)
        return Lazy(lambda **_: module) if is_lazy else module

    def load_from_archive(original: Function, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except FileNotFoundError as error:
            expected = "expected the archive of 'from_archive' or '_pretrained'; --overrides can set its path"
            raise ConfigurationError(f"{error}: {expected}") from error

    replace_once(from_params, "pop_and_construct_arg", construct)
    replace_once(Model, "from_archive", load_from_archive)
