"""The options of a biLM: each is declared once, as a field. Reading, checking, writing and the reference follow.

A new option is one field of a dataclass in `sizes.py`, and what the module that has these options does with it:

    layer_norm: Annotated[bool, Option("Whether a layer norm follows each layer.")] = False
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Optional, TypeVar, Union, get_args, get_origin, get_type_hints

from allennlp.common.checks import ConfigurationError

from elmo_plugin.common import Kind, check_value, did_you_mean

B = TypeVar("B", bound="Block")
OBJECT = Mapping[str, Any]


class Option(NamedTuple):
    """Describe an option in the annotation of a field of a `Block`: `name: Annotated[type, Option(…)] = default`.

    # Parameters

    about : `str`
        The meaning of the option, for the reference.
    kind : `Optional[Kind]`
        The values that a file may have; by default all of the field's type. Null means the default.
    key : `str`
        The key in a file, if it is not the name of the field. A dot leads into an object.
    convert : `Callable`
        Turns a value of `kind` into the value of the field.
    always : `bool`
        Write the option even at its default, as bilm-tf does. Any other option is left out then, so that the files and
        caches from before there was such an option keep their identity.
    """

    about: str
    kind: Optional[Kind] = None
    key: str = ""
    convert: Callable[[Any], Any] = lambda value: value
    always: bool = False


class Declared(NamedTuple):
    """Hold an option with what its field adds: a name, a default, a type, and a class if the type is a `Block`."""

    name: str
    keys: tuple[str, ...]
    default: Any
    kind: Any
    block: Optional[type["Block"]]
    option: Option

    @property
    def is_required(self) -> bool:
        """Return whether the option has no default."""
        return self.default is dataclasses.MISSING

    def read(self, block: Mapping[str, Any], path: str) -> Any:
        """Return the value of the option in a block whose keys errors begin with `path`."""
        for key in self.keys[:-1]:
            block, path = _value(block, key, path, OBJECT, dataclasses.MISSING), f"{path}{key}."
        value = _value(block, self.keys[-1], path, self.kind, self.default)
        if value is self.default:
            return value
        return self.block.from_dict(value) if self.block is not None else self.option.convert(value)


class Block:
    """The base class of dataclasses whose fields are the options in one object of an options file."""

    path: ClassVar[str] = ""
    """How errors begin the keys of this object."""
    is_sorted: ClassVar[bool] = False
    """Whether the keys are written in alphabetical order, as by bilm-tf, instead of the order of the fields."""

    @classmethod
    def from_dict(cls: type[B], block: Mapping[str, Any]) -> B:
        """Read the object of an options file. Other keys, such as training options, are ignored.

        Raises `ConfigurationError` for a key that is missing or has a wrong value.
        """
        options = cls(**{each.name: each.read(block, cls.path) for each in declared(cls)})
        options.check()
        return options

    def check(self) -> None:
        """Raise `ConfigurationError` for options that do not fit each other."""

    def to_dict(self) -> dict[str, Any]:
        """Return the object as it is in an options file; `from_dict` is the inverse."""
        written: dict[str, Any] = {}
        for each in declared(type(self)):
            value = getattr(self, each.name)
            if each.option.always or value != each.default:
                inner = written
                for key in each.keys[:-1]:
                    inner = inner.setdefault(key, {})
                inner[each.keys[-1]] = _plain(value)
        return dict(sorted(written.items())) if self.is_sorted else written

    def added(self) -> list[str]:
        """Return the options that bilm-tf does not have, and that are not at their defaults, by their paths."""
        found = []
        for each in declared(type(self)):
            if not each.option.always and getattr(self, each.name) != each.default:
                found.append(f"{self.path}{'.'.join(each.keys)}")
        return found

    @classmethod
    def blocks(cls) -> dict[str, type["Block"]]:
        """Return the classes of the options that are blocks themselves, by their keys."""
        return {each.keys[0]: each.block for each in declared(cls) if each.block is not None}

    @classmethod
    def reject_unknown(cls, block: Mapping[str, Any], path: str) -> None:
        """Raise `ConfigurationError` for a key of a config, at `path`, that is no option, such as a misspelt one."""
        _reject_unknown(block, _known(cls), path)


def declared(cls: type[Block]) -> tuple[Declared, ...]:
    """Return the options of a class, in the order of its fields."""
    hints, found = get_type_hints(cls, include_extras=True), []
    for each in dataclasses.fields(cls):  # type: ignore[arg-type]
        annotation, option = get_args(hints[each.name])
        if get_origin(annotation) is Union:  # `Optional`: null is the default of every option
            annotation = get_args(annotation)[0]
        block = annotation if isinstance(annotation, type) and issubclass(annotation, Block) else None
        kind = option.kind or (OBJECT if block else annotation)
        keys = tuple((option.key or each.name).split("."))
        found.append(Declared(each.name, keys, each.default, kind, block, option))
    return tuple(found)


def _value(block: Mapping[str, Any], key: str, path: str, kind: Any, default: Any) -> Any:
    value = block.get(key)
    if value is not None:
        check_value(f"{path}{key}", value, kind)
        return value
    if default is dataclasses.MISSING:
        raise ConfigurationError(f"'{path}{key}': expected this key, got the keys {sorted(block)}")
    return default


def _plain(value: Any) -> Any:
    """Return the value of a field as JSON has it."""
    if isinstance(value, Block):
        return value.to_dict()
    if isinstance(value, Mapping):
        return dict(value)
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _known(cls: type[Block]) -> dict[str, Any]:
    """Return the keys of a block. The value of a key is a dictionary of the keys inside it, or `None`."""
    known: dict[str, Any] = {}
    for each in declared(cls):
        inner = known
        for key in each.keys[:-1]:
            inner = inner.setdefault(key, {})
        inner[each.keys[-1]] = _known(each.block) if each.block is not None else None
    return known


def _reject_unknown(block: Mapping[str, Any], known: Mapping[str, Any], path: str) -> None:
    for key, value in block.items():
        if key not in known:
            expected = f"expected one of {', '.join(sorted(known))}, got an unknown key{did_you_mean(key, known)}"
            raise ConfigurationError(f"'{path}.{key}': {expected}")
        if isinstance(known[key], dict) and isinstance(value, Mapping):
            _reject_unknown(value, known[key], f"{path}.{key}")
