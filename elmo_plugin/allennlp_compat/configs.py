"""Repairs of how AllenNLP reads configs and reports metrics."""

import json
from typing import Any

from allennlp.commands import evaluate
from allennlp.common import Lazy, Params, from_params
from allennlp.common.checks import ConfigurationError
from allennlp.models import Model

from elmo_plugin.allennlp_compat.patching import Function, replace_once
from elmo_plugin.config_keys import check_keys


def check_keys_of_own_components() -> None:
    """Check the keys of each component of this package against the signature of its constructor.

    Symptom: `dropout: null` raises `TypeError: '<' not supported`; `shuffle: null` means false, `crf: 2` means true,
    and `elmo: ''` means the published weights. Cause: `FromParams` checks few types, and never a null.
    Guard: components of other packages are built as before.
    """
    package = __name__.partition(".")[0]

    def create_kwargs(
        original: Function, constructor: Function, cls: type, params: Params, **extras: Any
    ) -> dict[str, Any]:
        if cls.__module__.partition(".")[0] == package:
            check_keys(cls, constructor, params)
        kwargs: dict[str, Any] = original(constructor, cls, params, **extras)
        return kwargs

    replace_once(from_params, "create_kwargs", create_kwargs)


def repair_pretrained_modules() -> None:
    """Let `_pretrained` replace a part that a model builds itself, such as `elmo` of `elmo_tagger`.

    Symptom: `TypeError: Subscripted generics cannot be used …`. Cause: AllenNLP checks whether the module is a
    `Lazy[Elmo]`; now it checks for an `Elmo`. The error for a missing archive also says which key to override.
    Guard: only for `_pretrained`, and for the model type `from_archive`.
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


def print_metrics_of_evaluate() -> None:
    """Let `allennlp evaluate` print its metrics.

    Symptom: only the progress bar shows some of them. Cause: AllenNLP 2.9 stopped printing them.
    Guard: nothing is printed with `--output-file`.
    """

    def evaluate_from_archive(original: Function, *args: Any, **kwargs: Any) -> Any:
        metrics = original(*args, **kwargs)
        if not args[2:] and kwargs.get("metrics_output_file") is None:
            print(json.dumps(metrics, indent=2, default=str))
        return metrics

    replace_once(evaluate, "evaluate_from_archive", evaluate_from_archive)
