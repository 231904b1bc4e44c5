"""How a function of AllenNLP's is replaced: in place, once, and with the original still reachable as `__wrapped__`."""

import functools
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]


def wrap_once(owner: Any, name: str, wrap: Callable[[Function], Function]) -> None:
    """Put `wrap` of a function in its place, under its name and signature, unless that was done before."""
    original = getattr(owner, name)
    if hasattr(original, "_repaired"):
        return
    repaired = functools.wraps(original)(wrap(original))
    repaired._repaired = True  # type: ignore[attr-defined]
    setattr(owner, name, repaired)
