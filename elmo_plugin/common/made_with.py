"""Check that a cache, an unfinished run or a checkpoint was made with the same biLM, text and settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union

from allennlp.common.checks import ConfigurationError

from elmo_plugin.common.json_text import parse_json, read_json

LONGEST = 200
"""The number of characters of a value that an error shows."""


def check_made_with(
    place: str, found: Union[Mapping[str, Any], Path, bytes], expected: Mapping[str, Any], advice: str
) -> None:
    """Raise `ConfigurationError` if the settings `found` in `place` differ from the `expected` ones.

    They may be a file or a text of JSON. The error shows each key that differs with both values, and ends with
    `advice`. Keys that only `found` has are ignored.
    """
    if not isinstance(found, Mapping):
        try:
            found = read_json(found) if isinstance(found, Path) else parse_json(found.decode())
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"'{place}' does not say what it was made with: {error}; {advice}") from error
    changed = [key for key, value in expected.items() if key not in found or found[key] != value]
    if changed:
        shown = "; ".join(
            f"'{key}': expected {expected[key]!r:.{LONGEST}}, got {found.get(key)!r:.{LONGEST}}" for key in changed
        )
        raise ConfigurationError(f"'{place}' was made with other settings than this run ({shown}); {advice}")
