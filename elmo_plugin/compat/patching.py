"""Replace functions of AllenNLP in place."""

import functools
import inspect
import pkgutil
import sys
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]


def replaces(path: str) -> Callable[[Function], Function]:
    """Let the decorated function replace a function of a class or module, which is named by its full path.

    It gets the original as its first argument. What stands in the place of the original keeps its name and signature,
    and has it as `__wrapped__`. A function of a module is also replaced in every module that has imported it by name,
    so `from allennlp.commands.train import train_model` may come before `import elmo_plugin`. `replaced.py` lists
    each path, as a test checks.
    """

    def replace(replacement: Function) -> Function:
        owner_path, _, name = path.rpartition(".")
        owner = pkgutil.resolve_name(owner_path)
        found = inspect.getattr_static(owner, name)
        original = found.__func__ if isinstance(found, classmethod) else found

        @functools.wraps(original)
        def repaired(*args: Any, **kwargs: Any) -> Any:
            return replacement(original, *args, **kwargs)

        setattr(owner, name, classmethod(repaired) if isinstance(found, classmethod) else repaired)
        for module in list(sys.modules.values()) if inspect.ismodule(owner) else []:
            attributes = getattr(module, "__dict__", {})  # not `getattr(module, name)`, which would run lazy imports
            if attributes.get(name) is original:
                attributes[name] = repaired
        return replacement

    return replace
