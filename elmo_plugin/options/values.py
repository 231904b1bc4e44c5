"""What one key of the options may hold. Each reader names the key, what was found and what was wanted."""

from collections.abc import Mapping, Sequence
from typing import Any, Optional

MOST = 2**63 - 1
"""The largest whole number that torch takes."""
MOST_LAYERS = 1000
MOST_CHARACTERS = 10_000
MOST_CLIP = 1e18
"""A larger bound is none."""
MOST_PARAMETERS = 10_000_000_000
"""More than these no machine holds: a file that asks for them is broken, or made to do harm."""


class OptionsError(ValueError):
    """Options that describe no biLM; the message names the key, what was found and what was wanted."""


def wanted(block: Mapping[str, Any], path: str, key: str) -> Any:
    """The value of a key that must be there."""
    if key not in block:
        raise OptionsError(f"the key '{f'{path}.{key}' if path else key}' is missing; found {sorted(block)}")
    return block[key]


def block(options: Mapping[str, Any], path: str, key: str) -> Mapping[str, Any]:
    """Return the object under a key. Raises `OptionsError` for anything else."""
    value = wanted(options, path, key)
    if not isinstance(value, Mapping):
        raise OptionsError(f"'{f'{path}.{key}' if path else key}' is {value!r}; wanted an object")
    return value


def count(value: Any, name: str, least: int = 0, most: int = MOST) -> int:
    """A whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionsError(f"'{name}' is {value!r}; wanted a whole number of {least} or more")
    if value > most:
        raise OptionsError(f"'{name}' is {value!r}; wanted at most {most:,}")
    return value


def positive(block: Mapping[str, Any], path: str, key: str, default: Optional[int] = None, most: int = MOST) -> int:
    """A whole number of 1 or more."""
    value = wanted(block, path, key) if default is None else block.get(key, default)
    return count(value, f"{path}.{key}" if path else key, 1, most)


def flag(lstm: Mapping[str, Any], key: str) -> bool:
    """A truth value of the block `lstm`; absent and null are false."""
    value = lstm.get(key)
    if value is not None and not isinstance(value, bool):
        raise OptionsError(f"'lstm.{key}' is {value!r}; wanted true or false")
    return bool(value)


def clip(lstm: Mapping[str, Any], key: str) -> Optional[float]:
    """A bound of the block `lstm`; absent, null and 0 are none."""
    value = lstm.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MOST_CLIP:
        raise OptionsError(f"'lstm.{key}' is {value!r}; wanted a positive number, or none")
    return value or None


def boundary_ids(options: Mapping[str, Any]) -> tuple[int, int]:
    """The ids of `<S>` and `</S>` in a vocabulary file."""
    found, most = options["boundary_ids"], options.get("n_tokens_vocab") or MOST
    if not isinstance(found, (list, tuple)) or len(found) != 2 or found[0] == found[1]:
        raise OptionsError(f"'boundary_ids': expected the two ids of <S> and </S>, got {found!r}")
    return count(found[0], "boundary_ids", 1, most), count(found[1], "boundary_ids", 1, most)


def filters(pairs: Any, max_characters: int) -> tuple[tuple[int, int], ...]:
    """Convolutions as pairs of width and channels, none wider than a word."""
    try:
        found = tuple((count(width, "width", 1), count(channels, "channels", 1)) for width, channels in pairs)
    except (TypeError, ValueError):
        found = ()
    if not found:
        raise OptionsError(f"'char_cnn.filters' is {pairs!r}; wanted a list of [width, channels] pairs")
    widest = max(width for width, _ in found)
    if widest > max_characters:
        raise OptionsError(
            f"'char_cnn.filters' has a width of {widest}; wanted at most 'max_characters_per_token', {max_characters}"
        )
    return found


def entries(lexicon: Mapping[str, Any], key: str, marks: Sequence[str]) -> tuple[str, ...]:
    """The entries of a lexicon, each once, its marks among them."""
    found = wanted(lexicon, "lexicon", key)
    if not isinstance(found, (list, tuple)) or not all(isinstance(entry, str) for entry in found):
        raise OptionsError(f"'lexicon.{key}' is a {type(found).__name__}; wanted a list of strings")
    once = set(found)
    if len(once) < len(found):
        raise OptionsError(
            f"'lexicon.{key}' has {len(found):,} entries; wanted each once, found {len(once):,} different"
        )
    missing = [mark for mark in marks if mark not in once]
    if missing:
        raise OptionsError(f"'lexicon.{key}' lacks {', '.join(missing)}; wanted {', '.join(marks)} in it")
    return tuple(found)


def check_parameters(parameters: int) -> None:
    """Raise `OptionsError` if there are more of them than any machine holds."""
    if parameters > MOST_PARAMETERS:
        raise OptionsError(f"the options ask for {parameters:,} parameters; wanted at most {MOST_PARAMETERS:,}")
