"""Read JSON that others wrote, with limits on its size and its depth."""

import json
from pathlib import Path
from typing import Any

MOST_BYTES = 2**24
"""The largest file. The sizes of a biLM take a kilobyte, with a lexicon of a million words ten megabytes."""
MOST_DEPTH = 100
"""Lists and objects inside each other. Deeper ones could exceed Python's recursion limit wherever they are printed."""


def parse_json(text: str) -> Any:
    """Return the value of a JSON text. Raises `ValueError` for other texts and for one that is too deep."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"expected lists and objects of at most {MOST_DEPTH} levels, got more") from error
    level, depth = [value], 0
    while level := [block for block in level if isinstance(block, dict | list)]:
        depth += 1
        if depth > MOST_DEPTH:
            raise ValueError(f"expected lists and objects of at most {MOST_DEPTH} levels, got more")
        level = [inner for block in level for inner in (block.values() if isinstance(block, dict) else block)]
    return value


def read_json(path: Path) -> Any:
    """Return the value in a JSON file.

    Raises `OSError` for a file that cannot be read, and `ValueError` for one that is too large, is no regular file or
    holds no JSON.
    """
    if path.exists() and not path.is_file():
        raise ValueError("expected a file, got a folder or a device")
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"expected at most {MOST_BYTES:,} bytes, got more")
    return parse_json(content.decode("utf-8"))
