"""Characters of raw text that stand for others: ligatures, the long s, spaces, and characters without a width."""

import re
import unicodedata
from collections import Counter

SPECIAL = {
    "ligatures": "[\ufb00-\ufb06]",
    "long s": "ſ",
    "other spaces": r"[^\S \t\n\r\f\v]",
    # A zero-width space separates words, as in Khmer; the joiners U+200C and U+200D, as in Persian and Hindi, stay.
    "characters without a width": "[\u200b\u200e\u200f\u061c\u202a-\u202e\u2060-\u206f\ufeff]|\u00ad(?!\\s*$)",
}
ANY_SPECIAL = re.compile("|".join(f"({pattern})" for pattern in SPECIAL.values()))


class Spelling:
    """Replace characters that stand for others, and count them.

    Ligatures become letters, `ſ` becomes `s`, any space becomes a plain one, a zero-width space too, and other
    characters without a width are left out. Letters and their accents are composed (Unicode's form C).

    >>> Spelling().plain("die Conſtitution be\\u00adfiehlt")
    'die Constitution befiehlt'
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def plain(self, line: str) -> str:
        """Return a line with plain characters. A soft hyphen at its end is kept: it divides a word."""
        if line.isascii():
            return line
        composed = unicodedata.normalize("NFC", line)
        if composed != line:
            before, after = Counter(line), Counter(composed)
            # `é` of two characters, or the one character of Hindi that becomes two: each is one letter.
            self.counts["composed letters"] += min((before - after).total(), (after - before).total())
        return ANY_SPECIAL.sub(self._replace, composed).rstrip(" \r\n")

    def _replace(self, special: "re.Match[str]") -> str:
        kind = list(SPECIAL)[(special.lastindex or 0) - 1]
        self.counts[kind] += 1
        if special[0] == "\u200b" or kind == "other spaces":
            return " "
        return "" if kind == "characters without a width" else unicodedata.normalize("NFKC", special[0])
