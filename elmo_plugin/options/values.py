"""Readers of the values in an options file. Each raises an `OptionsError` that names the key of a wrong value."""

from collections.abc import Mapping, Sequence
from typing import Any, Optional

MOST = 2**63 - 1
"""The largest integer that torch accepts."""
MOST_LAYERS = 1000
MOST_CHARACTERS = 10_000
MOST_NUMBERS_OF_WORD = 2**20
"""The most numbers that the convolutions read and write for a word: 103,200 at the original size."""
MOST_CLIP = 1e18
"""The largest clip. A larger one would never clip anything."""
MOST_PARAMETERS = 10_000_000_000
"""No machine holds more parameters. A file that asks for more is damaged or malicious."""


class OptionsError(ValueError):
    """Raised for invalid options. The message names the key, the expected value and the actual one."""


def required(block: Mapping[str, Any], path: str, key: str) -> Any:
    """Return the value of a key that must exist."""
    if key not in block:
        raise OptionsError(f"'{_name(path, key)}': expected this key, got the keys {sorted(block)}")
    return block[key]


def object_under(options: Mapping[str, Any], path: str, key: str) -> Mapping[str, Any]:
    """Return the value of a key that must hold an object."""
    value = required(options, path, key)
    if not isinstance(value, Mapping):
        raise OptionsError(f"'{_name(path, key)}': expected an object, got {value!r}")
    return value


def integer(value: Any, name: str, least: int = 0, most: int = MOST) -> int:
    """Return an integer from `least` to `most`; `name` is the full key."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionsError(f"'{name}': expected a whole number of {least} or more, got {value!r}")
    if value > most:
        raise OptionsError(f"'{name}': expected at most {most:,}, got {value!r}")
    return value


def positive(block: Mapping[str, Any], path: str, key: str, default: Optional[int] = None, most: int = MOST) -> int:
    """Return the value of a key that holds an integer of 1 or more."""
    value = required(block, path, key) if default is None else block.get(key, default)
    return integer(value, _name(path, key), 1, most)


def flag(lstm: Mapping[str, Any], key: str) -> bool:
    """Return a truth value of the `lstm` block; a missing key and null mean false."""
    value = lstm.get(key)
    if value is not None and not isinstance(value, bool):
        raise OptionsError(f"'lstm.{key}': expected true or false, got {value!r}")
    return bool(value)


def clip(lstm: Mapping[str, Any], key: str) -> Optional[float]:
    """Return a clip of the `lstm` block; a missing key, null and 0 mean no clip."""
    value = lstm.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MOST_CLIP:
        raise OptionsError(f"'lstm.{key}': expected null or a number from 0 to {MOST_CLIP:g}, got {value!r}")
    return value or None


def boundary_ids(options: Mapping[str, Any]) -> tuple[int, int]:
    """Return the ids of `<S>` and `</S>`, two different lines of a vocabulary file."""
    ids, most = options["boundary_ids"], options.get("n_tokens_vocab") or MOST
    if not isinstance(ids, (list, tuple)) or len(ids) != 2 or ids[0] == ids[1]:
        raise OptionsError(f"'boundary_ids': expected the two ids of <S> and </S>, got {ids!r}")
    return integer(ids[0], "boundary_ids", 1, most), integer(ids[1], "boundary_ids", 1, most)


def filters(pairs: Any, max_characters: int) -> tuple[tuple[int, int], ...]:
    """Return the width and channels of each convolution. None may be wider than a word."""
    try:
        checked = tuple((integer(width, "width", 1), integer(channels, "channels", 1)) for width, channels in pairs)
    except (TypeError, ValueError):
        checked = ()
    if not checked:
        raise OptionsError(f"'char_cnn.filters': expected a list of [width, channels] pairs, got {pairs!r}")
    widest = max(width for width, _ in checked)
    if widest > max_characters:
        raise OptionsError(
            f"'char_cnn.filters': expected widths up to 'max_characters_per_token', {max_characters}, got {widest}"
        )
    return checked


def entries(lexicon: Mapping[str, Any], key: str, marks: Sequence[str]) -> tuple[str, ...]:
    """Return the strings under a key of the `lexicon` block: each occurs once, and all marks are among them."""
    values = required(lexicon, "lexicon", key)
    if not isinstance(values, (list, tuple)) or not all(isinstance(entry, str) for entry in values):
        raise OptionsError(f"'lexicon.{key}': expected a list of strings, got a {type(values).__name__}")
    different = set(values)
    if len(different) < len(values):
        raise OptionsError(
            f"'lexicon.{key}': expected each entry once, got {len(values):,} entries, {len(different):,} different"
        )
    missing = [mark for mark in marks if mark not in different]
    if missing:
        raise OptionsError(
            f"'lexicon.{key}': expected {', '.join(marks)} among the entries, got no {', '.join(missing)}"
        )
    return tuple(values)


def check_parameters(parameters: int) -> None:
    """Raise `OptionsError` for more parameters than any machine holds."""
    if parameters > MOST_PARAMETERS:
        raise OptionsError(f"the options ask for {parameters:,} parameters; expected at most {MOST_PARAMETERS:,}")


def _name(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
