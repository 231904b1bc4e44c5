"""Repairs of how AllenNLP reads configs and reports metrics: keys are checked, and errors say what needs what."""

import json
from typing import Any

from allennlp.commands import evaluate
from allennlp.common import Lazy, Params, from_params
from allennlp.common.checks import ConfigurationError
from allennlp.models import Model

from elmo_plugin.allennlp_compat.patching import Function, wrap_once
from elmo_plugin.config_keys import check_keys


def check_keys_of_own_components() -> None:
    """Check the keys of every component of this package, by the signature of its constructor, before it is built.

    Symptom: `dropout: null` ends in `TypeError: '<' not supported`; `shuffle: null` is taken for false, `crf: 2` for
    true, `elmo: ''` for the published weights. Cause: `FromParams` checks few types, and never a null.
    Guard: other people's components are built as before.
    """
    wrap_once(from_params, "create_kwargs", _with_checked_keys)


def _with_checked_keys(original: Function) -> Function:
    package = __name__.partition(".")[0]

    def create_kwargs(constructor: Function, cls: type, params: Params, **extras: Any) -> dict[str, Any]:
        if cls.__module__.partition(".")[0] == package:
            check_keys(cls, constructor, params)
        return original(constructor, cls, params, **extras)

    return create_kwargs


def repair_pretrained_modules() -> None:
    """Let `_pretrained` take the place of a part that its model builds itself, such as `elmo` of `elmo_tagger`.

    Symptom: `TypeError: Subscripted generics cannot be used …`. Cause: AllenNLP asks whether the module is a
    `Lazy[Elmo]`; it now asks for an `Elmo`. The error of a missing archive says what needs it.
    Guard: only for `_pretrained`, and for the model type `from_archive`.
    """
    wrap_once(from_params, "pop_and_construct_arg", _with_lazy_modules)
    wrap_once(Model, "from_archive", _saying_who_needs_it)


def _with_lazy_modules(original: Function) -> Function:
    def construct(owner: str, name: str, annotation: Any, default: Any, params: Params, **extras: Any) -> Any:
        if not (isinstance(params.get(name), Params) and "_pretrained" in params.get(name)):
            return original(owner, name, annotation, default, params, **extras)
        is_lazy = getattr(annotation, "__origin__", None) is Lazy
        inside = annotation.__args__[0] if is_lazy else annotation
        module = _saying_who_needs_it(original)(owner, name, inside, default, params, **extras)
        return Lazy(lambda **_: module) if is_lazy else module

    return construct


def _saying_who_needs_it(original: Function) -> Function:
    def read(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except FileNotFoundError as error:
            wanted = "expected the archive of 'from_archive' or '_pretrained'; --overrides can set its path"
            raise ConfigurationError(f"{error}: {wanted}") from error

    return read


def print_metrics_of_evaluate() -> None:
    """Let `allennlp evaluate` print its metrics.

    Symptom: the progress bar has some of them. Cause: AllenNLP 2.9 went quiet. Guard: not with `--output-file`.
    """
    wrap_once(evaluate, "evaluate_from_archive", _printing)


def _printing(original: Function) -> Function:
    def evaluate_from_archive(*args: Any, **kwargs: Any) -> Any:
        metrics = original(*args, **kwargs)
        if not args[2:] and kwargs.get("metrics_output_file") is None:
            print(json.dumps(metrics, indent=2, default=str))
        return metrics

    return evaluate_from_archive
