"""Errors that say where they arose, or which extra is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from allennlp.common.checks import ConfigurationError


@contextmanager
def named_errors(place: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turn an error of one of these kinds into a `ConfigurationError` that begins with the place, such as a file."""
    try:
        yield
    except kinds as error:
        raise ConfigurationError(f"{place}: {error}") from error


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Turn the error about a library that is not installed into a `ConfigurationError` that names its extra."""
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            f"{error.name} is not installed; install it with `pip install 'elmo-plugin[{name}]'`"
        ) from error
