"""Replace functions and other names of AllenNLP in place."""

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from elmo_plugin.compat.replaced import REPLACED

Function = Callable[..., Any]


def replaces(owner: Any, *names: str) -> Callable[[Function], Function]:
    """Let the decorated function replace the functions `names` of a class or module, unless it has replaced them.

    It gets the original as its first argument. What stands in the place of the original keeps its name and signature,
    and has it as `__wrapped__`. A function of a module is also replaced in every module that has imported it by name,
    so `from allennlp.commands.train import train_model` may come before `import elmo_plugin`. `REPLACED` must list it.
    """

    def replace(name: str, replacement: Function) -> None:
        original = getattr(owner, name)
        is_class_method = inspect.ismethod(original)
        original = original.__func__ if is_class_method else original
        if getattr(original, "_replacement", None) == replacement.__qualname__:
            return

        @functools.wraps(original)
        def repaired(*args: Any, **kwargs: Any) -> Any:
            return replacement(original, *args, **kwargs)

        repaired._replacement = replacement.__qualname__  # type: ignore[attr-defined]
        replace_name(owner, name, classmethod(repaired) if is_class_method else repaired)
        for module in list(sys.modules.values()) if inspect.ismodule(owner) else []:
            attributes = getattr(module, "__dict__", {})  # not `getattr(module, name)`, which would run lazy imports
            if attributes.get(name) is original:
                attributes[name] = repaired

    def decorate(replacement: Function) -> Function:
        for name in names:
            replace(name, replacement)
        return replacement

    return decorate


def replace_name(owner: Any, name: str, value: Any) -> None:
    """Replace the attribute `name` of a class or module. Raises `LookupError` if `REPLACED` does not list it."""
    path = [owner.__name__] if inspect.ismodule(owner) else [owner.__module__, owner.__qualname__]
    if (full_name := ".".join([*path, name])) not in REPLACED:
        raise LookupError(f"elmo_plugin/compat/replaced.py: expected '{full_name}' in REPLACED, which lists each name")
    setattr(owner, name, value)
