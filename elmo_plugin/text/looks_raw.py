"""Whether a text that should be tokenized, with one sentence per line, looks raw."""

from collections.abc import Iterable
from itertools import islice
from typing import Optional

SAMPLE = 1000
"""The number of lines that are looked at."""


def raw_text_form(lines: Iterable[str]) -> Optional[str]:
    """Return "untokenized" or "hard-wrapped" for a text that looks so, or else `None`.

    In untokenized text, one token in 20 or more ends in a punctuation mark after a letter; English texts have 8 to 15 %
    of such tokens, and tokenized ones, where these are abbreviations, below 2 %. In hard-wrapped text, most lines do
    not end a sentence, and have nearly the same length, or some of them end at a comma.

    >>> raw_text_form(["It rained, again."])
    'untokenized'
    """
    lines = list(filter(None, map(str.strip, islice(lines, SAMPLE))))
    tokens = [token for line in lines for token in line.split()]
    if sum(token[-1] in ".,;:!?。，、；：！？" and token[-2:-1].isalpha() for token in tokens) > len(tokens) / 20:
        return "untokenized"
    if len(lines) < 20:
        return None
    width = sorted(map(len, lines))[len(lines) * 9 // 10]
    n_full = sum(0.75 * width <= len(line) <= 1.1 * width for line in lines)
    n_open = sum(line.rstrip(" \"'”’»)]")[-1:] not in tuple(".!?…:;。！？") for line in lines)
    # Of a text that was cut at its line ends and then tokenized, many lines end inside a sentence, some at a comma.
    n_comma = sum(line.endswith((",", ";", ":")) for line in lines)
    is_cut = n_open > 0.35 * len(lines) and n_comma > max(10, 0.04 * len(lines))
    return "hard-wrapped" if is_cut or min(n_full, n_open) > 0.6 * len(lines) else None
