"""The options of a biLM: each is declared once, as a field. Reading, checking, writing and the reference follow.

A new option is one field of a dataclass in `sizes.py`, and what the module that has these options does with it:

    layer_norm: Annotated[bool, Option("Whether a layer norm follows each layer.")] = False
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Optional, Self, Union, get_args, get_origin, get_type_hints

from allennlp.common.checks import ConfigurationError

from elmo_plugin.common import check_value, did_you_mean


class Option(NamedTuple):
    """Describe an option in the annotation of a field of a `Block`: `name: Annotated[type, Option(…)] = default`.

    # Parameters

    about : `str`
        The meaning of the option, for the reference.
    kind : `Any`
        The values that a file may have, a type or a `Kind`; by default the type of the field. Null means the default.
    key : `str`
        The key in a file; by default the name of the field. A dot leads into an object.
    convert : `Callable`
        Turns a value of `kind` into the value of the field.
    always : `bool`
        Write the option even at its default, as bilm-tf does. Any other option is left out then, so that the files and
        caches from before there was such an option keep their identity.
    name, default, block
        What `declared` reads from the field: its name, its default, and its type if that is a `Block`.
    """

    about: str
    kind: Any = None
    key: str = ""
    convert: Callable[[Any], Any] = lambda value: value
    always: bool = False
    name: str = ""
    default: Any = dataclasses.MISSING
    block: Optional[type["Block"]] = None

    def read(self, block: Mapping[str, Any], path: str) -> Any:
        """Return the value of the option in a block whose keys errors begin with `path`."""
        outer, _, key = self.key.rpartition(".")
        inside = block.get(outer) if outer else block
        value = inside.get(key) if isinstance(inside, Mapping) else None
        if value is not None:
            check_value(f"{path}{self.key}", value, self.kind)
            return self.convert(value)
        if self.default is dataclasses.MISSING:
            raise ConfigurationError(f"'{path}{self.key}': expected this key, got the keys {sorted(block)}")
        return self.default


class Block:
    """The base class of dataclasses whose fields are the options in one object of an options file."""

    path: ClassVar[str] = ""
    """How errors begin the keys of this object."""
    is_sorted: ClassVar[bool] = False
    """Whether the keys are written in alphabetical order, as by bilm-tf, instead of the order of the fields."""

    @classmethod
    def from_dict(cls, block: Mapping[str, Any]) -> Self:
        """Read the object of an options file. Other keys, such as training options, are ignored.

        Raises `ConfigurationError` for a key that is missing or has a wrong value.
        """
        if not isinstance(block, Mapping):
            raise ConfigurationError(f"expected an object with the sizes of a biLM, got a {type(block).__name__}")
        options = cls(**{each.name: each.read(block, cls.path) for each in declared(cls)})
        options.check()
        return options

    def check(self) -> None:
        """Raise `ConfigurationError` for options that do not fit each other."""

    def to_dict(self) -> dict[str, Any]:
        """Return the object as it is in an options file; `from_dict` is the inverse."""
        block: dict[str, Any] = {}
        for each in declared(type(self)):
            value = getattr(self, each.name)
            if each.always or value != each.default:
                outer, _, key = each.key.rpartition(".")
                inside = block.setdefault(outer, {}) if outer else block
                inside[key] = _plain(value)
        return dict(sorted(block.items())) if self.is_sorted else block

    def added(self) -> list[str]:
        """Return the options that bilm-tf does not have, and that are not at their defaults, by their paths."""
        ours = [each for each in declared(type(self)) if not each.always]
        return [f"{self.path}{each.key}" for each in ours if getattr(self, each.name) != each.default]

    @classmethod
    def blocks(cls) -> dict[str, type["Block"]]:
        """Return the classes of the options that are blocks themselves, by their keys."""
        return {each.key: each.block for each in declared(cls) if each.block is not None}

    @classmethod
    def reject_unknown(cls, block: Mapping[str, Any], path: str) -> None:
        """Raise `ConfigurationError` for a key of a config, at `path`, that is no option, such as a misspelt one."""
        known, blocks = [each.key for each in declared(cls)], cls.blocks()
        outer = [key.partition(".")[0] for key in known if "." in key]
        for key, value in block.items():
            if key in blocks and isinstance(value, Mapping):
                blocks[key].reject_unknown(value, f"{path}.{key}")
            for name in [f"{key}.{inner}" for inner in value] if key in outer else [key]:
                if name not in known:
                    expected = f"expected one of {', '.join(sorted(known))}, got an unknown key"
                    raise ConfigurationError(f"'{path}.{name}': {expected}{did_you_mean(name, known)}")


def declared(cls: type[Block]) -> list[Option]:
    """Return the options of a class, in the order of its fields."""
    hints, found = get_type_hints(cls, include_extras=True), []
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        kind, option = get_args(hints[field.name])
        if get_origin(kind) is Union:  # `Optional`: null is the default of every option
            kind = get_args(kind)[0]
        option = option._replace(name=field.name, key=option.key or field.name, default=field.default)
        if isinstance(kind, type) and issubclass(kind, Block):
            option = option._replace(kind=Mapping[str, Any], convert=kind.from_dict, block=kind)
        found.append(option if option.kind else option._replace(kind=kind))
    return found


def _plain(value: Any) -> Any:
    """Return the value of a field as JSON has it."""
    if isinstance(value, Block):
        return value.to_dict()
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
