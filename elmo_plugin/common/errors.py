"""What errors say: where they arose, which extra is missing, which page explains them, and what may be printed."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from allennlp.common.checks import ConfigurationError

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""What a terminal obeys or cannot print: control characters other than tab and line feed, and lone surrogates."""
LONGEST_MESSAGE = 2000
"""The most characters of a message."""


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


def installed(name: str) -> Path:
    """Return the path of a page or config, such as `docs/extend.md`: in the package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    return package / name if (package / name).exists() else package.parent / name


def printable(message: str) -> str:
    r"""Return a message with its control characters escaped and, if it is long, without its middle.

    >>> printable("got \x1b[2J")
    'got \\x1b[2J'
    """
    message = CONTROLS.sub(lambda found: repr(found[0])[1:-1], message)
    if len(message) > LONGEST_MESSAGE:
        left_out = f" … ({len(message):,} characters) … "
        half = (LONGEST_MESSAGE - len(left_out)) // 2
        message = message[:half] + left_out + message[-half:]
    return message
