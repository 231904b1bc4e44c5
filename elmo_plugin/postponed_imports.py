"""Large libraries that AllenNLP imports for rarely used parts, or only to name a type, are imported when they are used.

Without this, `import elmo_plugin` takes twice as long: AllenNLP imports torchvision for images, scikit-learn for one
metric, and transformers' models for annotations. `python -m benchmarks.start` measures the seconds.
"""

import builtins
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

POSTPONED = ("cached_path", "nltk", "scipy", "sklearn", "spacy", "tensorboardX", "torchvision", "transformers")


class Postponed:
    """Stands for a module, a class or a function in the namespace of a module of AllenNLP, and imports it when used.

    It can be called, indexed, compared with a function, subclassed, written in an annotation and used in `isinstance`,
    which is all that AllenNLP does with what it imports of `POSTPONED`. An attribute is another one while AllenNLP is
    imported, and what it is afterwards.
    """

    is_importing = False

    def __init__(self, path: str) -> None:
        self._path = path

    def _found(self) -> Any:
        return pkgutil.resolve_name(self._path)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":  # `typing` looks for some
            raise AttributeError(name)
        if self.is_importing and name != "__version__":
            return Postponed(f"{self._path}.{name}")
        return getattr(self._found(), name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call what it stands for."""
        return self._found()(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, FunctionType) and bool(self._found() == other))

    __hash__ = object.__hash__  # a key of `typing`'s caches

    def __getitem__(self, key: Any) -> Any:
        return self._found()[key]

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, self._found())

    def __subclasscheck__(self, subclass: type) -> bool:
        return issubclass(subclass, self._found())

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type]:
        return (self._found(),)


@contextmanager
def postponed_imports() -> Iterator[None]:
    """Give the modules of AllenNLP that are imported meanwhile a `Postponed` for each import of a large library.

    Nothing else sees one: `sys.modules` and the imports of all other modules are not changed, and a module of AllenNLP
    that was imported before keeps what it has.
    """
    import_module = builtins.__import__

    def import_or_postpone(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        importing = ((globals or {}).get("__name__") or "").partition(".")[0]
        library = name.partition(".")[0]
        if importing == "allennlp" and level == 0 and library in POSTPONED:
            return Postponed(name if fromlist else library)
        return import_module(name, globals, locals, fromlist, level)

    builtins.__import__ = import_or_postpone
    Postponed.is_importing = True
    try:
        yield
    finally:
        builtins.__import__ = import_module
        Postponed.is_importing = False
