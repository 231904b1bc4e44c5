"""What may be printed of a text from someone else."""

import re

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""What a terminal obeys or cannot print: control characters other than tab and line feed, and lone surrogates."""
LONGEST_MESSAGE = 2000
"""The most characters of a message."""


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
