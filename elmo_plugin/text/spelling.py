"""Characters of raw text that stand for others: ligatures, the long s, spaces, and characters without a width."""

import re
import unicodedata
from collections import Counter

LIGATURES = {0xFB00 + number: letters for number, letters in enumerate(["ff", "fi", "fl", "ffi", "ffl", "st", "st"])}
SPACES = "\t\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
NO_WIDTH = "\u00ad\u200b\u200e\u200f\u2060\ufeff"
"""Soft hyphens and the like. U+200C and U+200D, which make a difference in Persian and in Hindi, are kept."""
REPLACED = {
    **LIGATURES,
    ord("ſ"): "s",
    **dict.fromkeys(map(ord, SPACES), " "),
    **dict.fromkeys(map(ord, NO_WIDTH), ""),
}
KINDS = {
    **dict.fromkeys(map(chr, LIGATURES), "ligatures"),
    "ſ": "long s",
    **dict.fromkeys(SPACES[1:], "other spaces"),
    **dict.fromkeys(NO_WIDTH, "characters without a width"),
}
SPECIAL = re.compile(f"[{''.join(map(chr, REPLACED))}]")


class Spelling:
    """Replace characters that stand for others, and count them.

    Ligatures become letters, `ſ` becomes `s`, any space becomes a plain one, and characters without a width are left
    out. Letters and their accents are composed (Unicode's form C).

    >>> Spelling().plain("die Conſtitution be\\u00adfiehlt")
    'die Constitution befiehlt'
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def plain(self, line: str) -> str:
        """Return a line with plain characters. A soft hyphen at its end is kept: it divides a word."""
        if line.isascii() and not SPECIAL.search(line):
            return line
        composed = unicodedata.normalize("NFC", line)
        self.counts["composed letters"] += len(line) - len(composed)
        text = composed.rstrip()
        end = "\u00ad" * text.endswith("\u00ad")
        special = SPECIAL.findall(text)
        if special:
            self.counts.update(KINDS[character] for character in special if character != "\t")
            text = text.translate(REPLACED)
        return text + end
