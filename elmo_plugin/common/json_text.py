"""Read JSON from untrusted sources, with limits on its size and depth, and check that it has the expected settings."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union

from allennlp.common.checks import ConfigurationError

MOST_BYTES = 2**24
"""The largest file. An options file takes a kilobyte, or ten megabytes with a vocabulary of a million words."""
MOST_DEPTH = 100
"""The deepest nesting of lists and objects. Printing deeper ones could exceed Python's recursion limit."""
MOST_VALUES = 2**21
"""The most brackets and commas. An empty list takes two bytes in a file and eighty in memory."""
LONGEST = 200
"""The number of characters of a value that an error shows."""


def parse_json(text: str) -> dict[str, Any]:
    """Return the object in a JSON text. Raises `ValueError` if it is none, has too many values or is too deep."""
    if sum(map(text.count, "[{,")) > MOST_VALUES:
        raise ValueError(f"expected at most {MOST_VALUES:,} values, got more")
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"expected lists and objects of at most {MOST_DEPTH} levels, got more") from error
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, got a {type(value).__name__}")
    level, depth = [value], 0
    while level := [block for block in level if isinstance(block, dict | list)]:
        depth += 1
        if depth > MOST_DEPTH:
            raise ValueError(f"expected lists and objects of at most {MOST_DEPTH} levels, got more")
        level = [inner for block in level for inner in (block.values() if isinstance(block, dict) else block)]
    return value


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises `OSError` if it cannot be read, and `ValueError` if it is too large, not a regular file or no JSON object.
    """
    if path.exists() and not path.is_file():
        raise ValueError("expected a file, got a folder or a device")
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"expected at most {MOST_BYTES:,} bytes, got more")
    return parse_json(content.decode("utf-8"))


def check_made_with(
    place: str, found: Union[Mapping[str, Any], Path, bytes], expected: Mapping[str, Any], advice: str
) -> None:
    """Raise `ConfigurationError` if the settings `found` in `place` differ from the `expected` ones.

    The place is a cache, an unfinished run or a checkpoint. What was found may be a file or a text of JSON. The
    error shows each key that differs with both values, and ends with `advice`. Keys that only `found` has are ignored.
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
