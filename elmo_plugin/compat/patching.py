"""Replace a function of AllenNLP in place."""

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]


def replace_once(owner: Any, name: str, replacement: Function) -> None:
    """Replace the function `name` of a class or module, unless it was replaced before.

    `replacement` gets the original as its first argument. The new function keeps the name and the signature, and the
    original is its `__wrapped__`. A function of a module is also replaced in every module that has imported it by name,
    so `from allennlp.commands.train import train_model` may come before `import elmo_plugin`.
    """
    original = getattr(owner, name)
    if hasattr(original, "_repaired"):
        return

    @functools.wraps(original)
    def repaired(*args: Any, **kwargs: Any) -> Any:
        return replacement(original, *args, **kwargs)

    repaired._repaired = True  # type: ignore[attr-defined]
    setattr(owner, name, repaired)
    for module in list(sys.modules.values()) if inspect.ismodule(owner) else []:
        names = getattr(module, "__dict__", {})  # not `getattr(module, name)`, which would run lazy imports
        if names.get(name) is original:
            names[name] = repaired
