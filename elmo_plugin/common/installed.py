"""The pages and configs that come with the package, and the libraries of its extras, which may not be installed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from allennlp.common.checks import ConfigurationError


def installed(name: str) -> Path:
    """Return the path of a page or config, such as `docs/extend.md`: in the package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    return package / name if (package / name).exists() else package.parent / name


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Turn the error about a library that is not installed into a `ConfigurationError` that names its extra."""
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            f"{error.name} is not installed; install it with `pip install 'elmo-plugin[{name}]'`"
        ) from error
