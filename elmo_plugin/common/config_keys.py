"""Checks of config keys: types before AllenNLP builds an object, ranges in the constructor of that object.

Each error names the key, the expected value and the actual one.
"""

import difflib
import inspect
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Optional, Union, get_args, get_origin

from allennlp.common import Lazy, Params, Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.common.from_params import infer_params

PACKAGE = __name__.partition(".")[0]
MOST = 2**63 - 1
"""The largest integer that torch accepts."""

Kind = tuple[str, Callable[[Any], bool]]
"""A type of config values: its name in errors, and a test whether a value has it."""

KINDS: dict[Any, Kind] = {
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a whole number", lambda value: _is_int(value)),
    float: ("a number", lambda value: _is_int(value) or (isinstance(value, float) and math.isfinite(value))),
    str: ("a non-empty string", lambda value: isinstance(value, str | Path) and bool(str(value))),
    type(None): ("null", lambda value: value is None),
}


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Return a question that suggests the choice most similar to a misspelled name, or nothing if none is similar.

    >>> did_you_mean("droput", ["dropout", "encoder"])
    "; did you mean 'dropout'?"
    """
    nearest = difflib.get_close_matches(name, choices, n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def unknown_keys(
    cls: type, constructor: Callable[..., Any], params: Params, supplied: Collection[str] = ()
) -> list[str]:
    """Return an error message for each key of a config that the constructor does not have.

    The message lists the keys that exist, except those in `supplied`, which AllenNLP passes.
    """
    parameters = infer_params(cls, constructor).items()
    known = [name for name, each in parameters if name != "self" and each.kind is not each.VAR_KEYWORD]
    keys = [name for name in known if name not in supplied]
    expected = f"expected a key of {cls.__name__} ({', '.join(keys) or 'none'}), got an unknown key"
    return [f"'{params.history}{key}': {expected}{did_you_mean(key, keys)}" for key in params if key not in known]


def check_keys(cls: type, constructor: Callable[..., Any], params: Params) -> None:
    """Check the values of a config against the signature of the constructor that will get them.

    `FromParams` passes null to any parameter, turns true into a number and a string into a list, and does not say where
    in the config a wrong value is. Raises `ConfigurationError` with the path of the key. Every key must be one of the
    constructor's (see `unknown_keys`).
    """
    parameters = infer_params(cls, constructor)
    for key, value in params.params.items():
        parameter = parameters[key]
        if value is not None or parameter.default is not None:
            has_default = value is None and parameter.default is not inspect.Parameter.empty
            hint = "; leave the key out for its default" if has_default else ""
            check_value(params.history + key, value, parameter.annotation, hint)
        component: Any = _component(parameter.annotation)
        # A name with a dot is the import path of a class, which is not registered.
        if isinstance(value, str) and component is not None and "." not in value:
            choices = component.list_available()
            if value not in choices:
                expected = f"expected an object or one of {', '.join(choices)}, got {value!r}"
                raise ConfigurationError(f"'{params.history}{key}': {expected}{did_you_mean(value, choices)}")


def check_value(key: str, value: Any, annotation: Any, hint: str = "") -> None:
    """Raise `ConfigurationError` for a value that does not fit the annotation, or the `Kind` in its place."""
    expected, is_right = kind_of(annotation)
    if not is_right(value):
        got = json.dumps(value, default=str, ensure_ascii=False)[:200]
        raise ConfigurationError(f"'{key}': expected {expected}, got {got}{hint}")


def kind_of(annotation: Any) -> Kind:
    """Return the type of config values that a parameter with this annotation accepts. A `Kind` is returned as it is."""
    if isinstance(annotation, tuple):
        return annotation
    arguments = get_args(annotation)
    component = _component(annotation)
    if annotation in KINDS:
        return KINDS[annotation]
    if get_origin(annotation) is Union:
        names, tests = zip(*map(kind_of, arguments), strict=True)
        return " or ".join(names), lambda value: any(test(value) for test in tests)
    if get_origin(annotation) in (list, Sequence):
        name, test = kind_of(arguments[0])
        return (
            f"[{name}, …]",
            lambda value: isinstance(value, Sequence) and not isinstance(value, str) and all(map(test, value)),
        )
    if get_origin(annotation) in (dict, Mapping):
        name, test = kind_of(arguments[1])
        return "an object", lambda value: isinstance(value, Mapping) and all(map(test, value.values()))
    if component is None:
        return "anything", lambda value: True
    if issubclass(component, Registrable):
        return (
            f"an object or a registered {component.__name__}",
            lambda value: isinstance(value, Mapping) or (isinstance(value, str) and bool(value)),
        )
    return "an object", lambda value: isinstance(value, Mapping)


def names_our_components(config: Any) -> bool:
    """Return whether a config of `train` names a component of this package where AllenNLP has one of its own kinds.

    The value of a `type` is a name, and so is a string where AllenNLP's constructors take a component, such as
    `dataset_reader: 'column_tags'`. Any other string means something else, such as the project of a callback.
    """
    from allennlp.commands.train import (
        TrainModel,
    )  # not at the top: `compat` imports this package before AllenNLP works

    kinds = {kind: names for kind, names in Registrable._registry.items() if not is_ours(kind)}
    ours = {name for names in kinds.values() for name, (component, _) in names.items() if is_ours(component)}

    def is_named(value: Any, annotation: Any) -> bool:
        arguments = [each for each in get_args(annotation) if each is not type(None)]
        if isinstance(value, list):
            return any(is_named(each, arguments[0] if arguments else Any) for each in value)
        component = _component(annotation)
        if component is None and get_origin(annotation) is Union:
            return any(is_named(value, each) for each in arguments)
        registry = kinds.get(component, {}) if component is not None else {}
        if isinstance(value, str):
            return component is not None and (value in ours & registry.keys() or value.startswith(f"{PACKAGE}."))
        if not isinstance(value, Mapping):
            return False
        if component is None:  # the values of a dictionary, or keys that no signature describes
            inside = arguments[1] if get_origin(annotation) in (dict, Mapping) else Any
            return value.get("type") in ours or any(is_named(each, inside) for each in value.values())
        name = value.get("type", getattr(component, "default_implementation", None))
        cls, constructor = registry.get(name, (component, None))
        if is_named(name, annotation) or is_ours(cls):
            return True
        parameters = infer_params(cls, getattr(cls, constructor or "__init__"))
        annotations = {key: parameter.annotation for key, parameter in parameters.items()}
        return any(is_named(each, annotations.get(key, Any)) for key, each in value.items())

    return is_named(config, TrainModel)


def at_least(least: float, **values: Optional[float]) -> None:
    """Raise `ConfigurationError` for the first key whose number is smaller than `least`. `None` passes."""
    for key, value in values.items():
        if value is not None and not (isinstance(value, Real) and value >= least):
            raise ConfigurationError(f"'{key}': expected {least} or more, got {value!r}")


def probability(**values: float) -> None:
    """Raise `ConfigurationError` for the first key whose number is not between 0 and 1."""
    for key, value in values.items():
        if not (isinstance(value, Real) and 0 <= value <= 1):
            raise ConfigurationError(f"'{key}': expected a number from 0 to 1, got {value!r}")


def _component(annotation: Any) -> Optional[type]:
    """Return the class that a config builds for a parameter, also inside `Lazy` and `Optional`, or `None`."""
    parts = [part for part in get_args(annotation) if part is not type(None)]
    if get_origin(annotation) is Lazy or (get_origin(annotation) is Union and len(parts) == 1):
        return _component(parts[0])
    return annotation if inspect.isclass(annotation) and hasattr(annotation, "from_params") else None


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MOST


def registered_name(kind: type[Registrable], part: object) -> str:
    """Return the name under which the class of a part is registered, or else the name of the class."""
    named = (name for name in kind.list_available() if kind.by_name(name) is type(part))
    return next(named, type(part).__name__)


def is_ours(component: type) -> bool:
    """Return whether a class is defined in this package."""
    return component.__module__.partition(".")[0] == PACKAGE
