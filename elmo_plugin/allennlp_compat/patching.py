"""Replace a function of AllenNLP in place."""

import functools
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]


def replace_once(owner: Any, name: str, replacement: Function) -> None:
    """Replace the function `name` of a class or module, unless it was replaced before.

    `replacement` gets the original as its first argument. The new function keeps the name and the signature, and the
    original is its `__wrapped__`.
    """
    original = getattr(owner, name)
    if hasattr(original, "_repaired"):
        return

    @functools.wraps(original)
    def repaired(*args: Any, **kwargs: Any) -> Any:
        return replacement(original, *args, **kwargs)

    repaired._repaired = True  # type: ignore[attr-defined]
    setattr(owner, name, repaired)
