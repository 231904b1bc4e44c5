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

import torch
from allennlp.common import FromParams, Lazy, Params, Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.common.from_params import infer_params

from elmo_plugin.common.errors import installed

PACKAGE = __name__.partition(".")[0]
CHECKED = (PACKAGE, "allennlp", "allennlp_models")
"""The packages whose constructors take no other keys than those that they name, also if they have `**kwargs`."""
MOST = 2**63 - 1
"""The largest integer that torch accepts."""
MOST_NAMES = 8
"""A longer list of names is left out where one of them is meant."""

NAMING = ("type", "dataset_reader", "validation_dataset_reader", "tokenizer", "checkpointer", "callbacks")
"""The keys of a config under which a string is the name of a component."""

Kind = tuple[str, Callable[[Any], bool]]
"""A type of config values: its name in errors, and a test whether a value has it."""

KINDS: dict[Any, Kind] = {
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a whole number", lambda value: _is_int(value)),
    float: ("a number", lambda value: _is_int(value) or (isinstance(value, float) and math.isfinite(value))),
    str: ("a non-empty string", lambda value: isinstance(value, str | Path) and bool(str(value))),
    type(None): ("null", lambda value: value is None),
}
KINDS_OF_ALLENNLP: dict[Any, Kind] = {
    **KINDS,
    bool: ("true or false", lambda value: isinstance(value, int)),
    int: ("a whole number", lambda value: isinstance(value, int)),
    str: ("a string", lambda value: isinstance(value, str | Path)),
    torch.device: ("a whole number", lambda value: isinstance(value, int)),
}
"""What AllenNLP passes to a constructor of its own."""
GIVEN = {
    *("self", "vocab", "serialization_dir", "model", "model_parameters", "reader", "data_path", "local_rank"),
    *("world_size", "distributed", "batch_weight_key", "data_loader", "validation_data_loader"),
}
"""Parameters that AllenNLP's commands pass below the top of a config."""
AT_TOP = ("distributed", "evaluation", "include_in_archive", "numpy_seed", "pytorch_seed", "random_seed")
"""The keys of a config that AllenNLP reads before it builds anything."""
BEFORE_1_0 = {
    "constraint_type": "it is 'label_encoding' now",
    "cuda_device": "-1 is the processor, and several GPUs stand in 'distributed'",
    "elmo_token_embedder_multilang": "it is gone; 'elmo' reads one biLM",
    "initializer": "write { regexes: [[…]] }",
    "iterator": "it is 'data_loader' now",
    "lazy": "readers read as the data loader asks: leave it out",
    "num_serialized_models_to_keep": "it is 'keep_most_recent_by_count' of 'checkpointer' now",
    "regularizer": "write { regexes: [[…]] }",
    "similarity_function": "it is 'matrix_attention' now",
    "sorting_keys": "it has names of fields now, and can be left out",
}
"""Keys and names of configs from before AllenNLP 1.0, and what became of them."""


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Return a question that suggests the choice most similar to a misspelled name, or nothing if none is similar.

    >>> did_you_mean("droput", ["dropout", "encoder"])
    "; did you mean 'dropout'?"
    """
    if name in BEFORE_1_0:
        return f"; {BEFORE_1_0[name]}: see {installed('docs/guides/old-configs.md')}"
    nearest = difflib.get_close_matches(name, choices, n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def check_config(value: Any, annotation: Any = None, path: str = "") -> None:
    """Check a config of `train` against the constructors that will get its blocks, before anything is built.

    Raises `ConfigurationError` with the path of the first wrong key, name or value. Two things are left to AllenNLP:
    what a class of another package does with the values of its keys, and a class that is named by its import path.

    # Parameters

    value : `Any`
        The config, or a part of it.
    annotation : `Any`
        The type of the parameter that gets the part. By default AllenNLP's `TrainModel`, which gets the whole.
    path : `str`
        Where the part is in the config, such as `model.elmo`.
    """
    if annotation is None:
        from allennlp.commands.train import TrainModel  # not at the top: `compat` imports this before AllenNLP works

        annotation, value = TrainModel, {key: each for key, each in value.items() if key not in AT_TOP}
    annotation = _required(annotation)
    component = _component(annotation)
    if component is None:
        if get_origin(annotation) in (dict, Mapping, list, Sequence) and isinstance(value, Mapping | list):
            for key, each in value.items() if isinstance(value, Mapping) else enumerate(value):
                check_config(each, get_args(annotation)[-1], f"{path}.{key}")
        return
    block = {"type": value} if isinstance(value, str) else value
    if not isinstance(block, Mapping) or "_pretrained" in block:
        return
    cls, constructor = component, "__init__"
    if issubclass(component, Registrable) and component in Registrable._registry:
        name = block.get("type", component.default_implementation)
        if "." in str(name):
            return
        check_name(path if isinstance(value, str) else f"{path}.type", name, component)
        cls, named = Registrable._registry[component][str(name)]
        constructor, block = named or constructor, {key: each for key, each in block.items() if key != "type"}
    if getattr(getattr(cls, "from_params", None), "__func__", None) is FromParams.__dict__["from_params"].__func__:
        params = Params(dict(block), f"{path}." if path else "")
        parameters = check_keys(cls, getattr(cls, constructor), params, GIVEN if path else ())
        for key, each in block.items():
            if key in parameters:
                check_config(each, parameters[key].annotation, params.history + key)


def check_keys(
    cls: type, constructor: Callable[..., Any], params: Params, supplied: Collection[str] = ()
) -> dict[str, inspect.Parameter]:
    """Check the keys and the values of a block of a config against the signature of the constructor that will get them.

    `FromParams` passes null to any parameter, turns true into a number and a string into a list, and does not say where
    in the config a wrong value is. Raises `ConfigurationError` with the path of the key. For a key that the constructor
    does not have, it lists those that exist, without those in `supplied`, which AllenNLP passes. Returns the parameters
    of the constructor.
    """
    parameters = infer_params(cls, constructor)
    root = cls.__module__.partition(".")[0]
    named = {key: each for key, each in parameters.items() if each.kind is not each.VAR_KEYWORD}
    keys = [key for key in named if key not in supplied and key != "self"]
    kinds = KINDS if is_ours(cls) else KINDS_OF_ALLENNLP
    for key, value in params.params.items():
        place = params.history + key
        if key not in named:
            if root in CHECKED or named.keys() == parameters.keys():
                expected = f"expected a key of {cls.__name__} ({', '.join(keys) or 'none'}), got an unknown key"
                raise ConfigurationError(f"'{place}': {expected}{did_you_mean(key, keys)}")
        elif root in CHECKED:
            annotation, default = named[key].annotation, named[key].default
            if value is not None or default is not None:
                has_default = value is None and default is not inspect.Parameter.empty
                hint = "; leave the key out for its default" if has_default else did_you_mean(key, ())
                check_value(place, value, annotation, hint, kinds)
            component: Any = _component(annotation)
            if isinstance(value, str) and component is not None and "." not in value:  # with a dot: an import path
                check_name(place, value, component)
    return named


def check_name(place: str, name: Optional[str], kind: type[Registrable]) -> None:
    """Raise `ConfigurationError` if no component of this kind has the name, which a config has at this place."""
    choices = kind.list_available()
    if name not in choices:
        meant = getattr(kind, "instead_of_a_name", did_you_mean(str(name), choices))
        is_enough = meant and len(choices) > MOST_NAMES
        expected = f"the name of a {kind.__name__}" if is_enough else f"an object or one of {', '.join(choices)}"
        raise ConfigurationError(f"'{place}': expected {expected}, got {name!r}{meant}")


def check_value(key: str, value: Any, annotation: Any, hint: str = "", kinds: Mapping[Any, Kind] = KINDS) -> None:
    """Raise `ConfigurationError` for a value that does not fit the annotation, or the `Kind` in its place."""
    expected, is_right = kind_of(annotation, kinds)
    if not is_right(value):
        got = json.dumps(value, default=str, ensure_ascii=False)[:200]
        raise ConfigurationError(f"'{key}': expected {expected}, got {got}{hint}")


def kind_of(annotation: Any, kinds: Mapping[Any, Kind] = KINDS) -> Kind:
    """Return the type of config values that a parameter with this annotation accepts. A `Kind` is returned as it is."""
    if isinstance(annotation, tuple):
        return annotation
    arguments = get_args(annotation)
    component = _component(annotation)
    if annotation in kinds:
        return kinds[annotation]
    if get_origin(annotation) is Union:
        names, tests = zip(*(kind_of(each, kinds) for each in arguments), strict=True)
        return " or ".join(dict.fromkeys(names)), lambda value: any(test(value) for test in tests)
    if get_origin(annotation) in (list, Sequence):
        name, test = kind_of(arguments[0], kinds)
        return (
            f"[{name}, …]",
            lambda value: isinstance(value, Sequence) and not isinstance(value, str) and all(map(test, value)),
        )
    if get_origin(annotation) in (dict, Mapping):
        name, test = kind_of(arguments[1], kinds)
        return "an object", lambda value: isinstance(value, Mapping) and all(map(test, value.values()))
    if component is None:
        return "anything", lambda value: True
    if issubclass(component, Registrable):
        return (
            f"an object or a registered {component.__name__}",
            lambda value: isinstance(value, Mapping) or (isinstance(value, str) and bool(value)),
        )
    return "an object", lambda value: isinstance(value, Mapping)


def names_our_components(config: Any, key: str = "") -> bool:
    """Return whether a config of `train` names a component of this package where AllenNLP has one of its own kinds.

    The value of a `type` is a name, and so is a string under the keys of `NAMING`, such as `dataset_reader:
    'column_tags'`. Any other string means something else, such as the project of a callback.
    """
    if isinstance(config, Mapping | list):
        inside = config.items() if isinstance(config, Mapping) else ((key, value) for value in config)
        return any(names_our_components(value, name) for name, value in inside)
    if key not in NAMING or not isinstance(config, str):
        return False
    named = [names[config][0] for kind, names in Registrable._registry.items() if config in names and not is_ours(kind)]
    return config.startswith(f"{PACKAGE}.") or any(map(is_ours, named))


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


def _required(annotation: Any) -> Any:
    """Return the type inside `Lazy` and `Optional`."""
    parts = [part for part in get_args(annotation) if part is not type(None)]
    is_wrapped = get_origin(annotation) is Lazy or (get_origin(annotation) is Union and len(parts) == 1)
    return _required(parts[0]) if is_wrapped else annotation


def _component(annotation: Any) -> Optional[type]:
    """Return the class that a config builds for a parameter, also inside `Lazy` and `Optional`, or `None`."""
    required = _required(annotation)
    return required if inspect.isclass(required) and hasattr(required, "from_params") else None


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MOST


def is_ours(component: type) -> bool:
    """Return whether a class is defined in this package."""
    return component.__module__.partition(".")[0] == PACKAGE
