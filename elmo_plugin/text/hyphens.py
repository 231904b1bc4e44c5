"""Words that a line end divides."""

import re
from collections import Counter
from collections.abc import Iterable
from zlib import crc32

WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
HYPHENS = "-‐¬\u00ad"
DIVIDED = re.compile(rf"([^\W\d_]+)([{HYPHENS}])$")
PARTS = re.compile(rf"(?<!\S)\S++(?<=[{HYPHENS}])\n\S*")
FIRST_WORD = re.compile(r"[^\W\d_]+")
SUSPENDED = frozenset(
    ["a", "and", "bzw", "e", "eller", "en", "et", "i", "ja", "o", "och", "oder", "of", "og", "or", "ou", "und", "y"]
)
"""Words after which a hyphen stands for a part that follows: `Haupt- und Nebensatz`."""
WITHOUT_SPACES = re.compile(r"[\u2e80-\u312f\u31a0-\u9fff\uf900-\ufaff\uff00-\uffef]")
"""Chinese and Japanese characters, between which a line end is no space."""
N_BITS = 2**27
"""The size of the table of known words. With five million words, 4 % of unknown words look known."""


class KnownWords:
    """Remember the words of a text in constant memory. A few words that it does not have look as if it had them."""

    def __init__(self) -> None:
        self._bits = bytearray(N_BITS // 8)

    def add(self, lines: Iterable[str]) -> None:
        """Remember the words of lines, except the parts that a line end may divide."""
        whole = PARTS.sub(" ", "\n".join(map(str.strip, lines)).lower())
        for word in set(WORD.findall(whole)):
            byte, bit = divmod(crc32(word.encode()) % N_BITS, 8)
            self._bits[byte] |= 1 << bit

    def __contains__(self, word: str) -> bool:
        byte, bit = divmod(crc32(word.lower().encode()) % N_BITS, 8)
        return bool(self._bits[byte] >> bit & 1)


class Hyphens:
    """Join the lines of a paragraph, and the words that line ends divide; count what was joined and what was kept.

    A soft hyphen and `¬` always divide a word. A hyphen before a small letter does, if the whole word is known or one
    of its parts is not; `well-` and `known`, of which only the parts are known, become `well-known`.
    """

    def __init__(self, known: KnownWords) -> None:
        self._known = known
        self.joined, self.kept = Counter[str](), Counter[str]()

    def join(self, former: str, text: str) -> tuple[str, str]:
        """Return the former of two lines, without the hyphen that divides a word, and what stands between them."""
        divided = DIVIDED.search(former) if former[-1] in HYPHENS else None
        following = FIRST_WORD.match(text)
        if not divided or not following or (divided[2] in "-‐" and following[0] in SUSPENDED):
            return former, "" if WITHOUT_SPACES.match(former[-1]) and WITHOUT_SPACES.match(text) else " "
        first, hyphen, second = *divided.groups(), following[0]
        is_word = hyphen not in "-‐" or (
            second[0].islower()
            and (first + second in self._known or first not in self._known or second not in self._known)
        )
        if is_word:
            self.joined[first + second] += 1
            return former[:-1], ""
        self.kept[f"{first}{hyphen}{second}"] += 1
        return former, ""
