"""Check that a cache, an unfinished run or a checkpoint was made with the same biLM, text and settings."""

from collections.abc import Mapping
from typing import Any

from allennlp.common.checks import ConfigurationError

LONGEST = 200
"""The number of characters of a value that an error shows."""


def check_made_with(place: str, found: Mapping[str, Any], expected: Mapping[str, Any], advice: str) -> None:
    """Raise `ConfigurationError` if the settings `found` in `place` differ from the `expected` ones.

    The error shows each key that differs with both values, and ends with `advice`. Keys that only `found` has are
    ignored.
    """
    changed = [key for key, value in expected.items() if key not in found or found[key] != value]
    if changed:
        shown = "; ".join(f"'{key}': expected {_short(expected[key])}, got {_short(found.get(key))}" for key in changed)
        raise ConfigurationError(f"'{place}' was made with other settings than this run ({shown}); {advice}")


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…"
