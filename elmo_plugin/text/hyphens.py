"""Words that a line end divides."""

import re
from collections.abc import Iterable
from zlib import crc32

WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
HYPHENS = "-‐¬\u00ad"
DIVIDED = re.compile(rf"([^\W\d_]+)([{HYPHENS}])$")
FIRST_WORD = re.compile(r"[^\W\d_]+")
SUSPENDED = frozenset(
    ["a", "and", "bzw", "e", "eller", "en", "et", "i", "ja", "o", "och", "oder", "of", "og", "or", "ou", "und", "y"]
)
"""Words after which a hyphen stands for a part that follows: `Haupt- und Nebensatz`."""
WITHOUT_SPACES = re.compile(r"[\u2e80-\u312f\u31a0-\u9fff\uf900-\ufaff\uff00-\uffef]")
"""Chinese and Japanese characters, between which a line end is no space."""
N_BITS = 2**27
"""The size of the table of known words. With five million words, 4 % of unknown words look known."""
N_EXAMPLES = 10


class KnownWords:
    """Remember the words of a text in constant memory. A few words that it does not have look as if it had them."""

    def __init__(self) -> None:
        self._bits = bytearray(N_BITS // 8)

    def add(self, lines: Iterable[str]) -> None:
        """Remember the words of lines, except the parts that a line end may divide."""
        parts: set[str] = set()
        after_hyphen = False
        for line in lines:
            found = line.lower().split()
            is_divided = bool(found) and found[-1].endswith(tuple(HYPHENS))
            parts.update(found[after_hyphen : len(found) - is_divided])
            after_hyphen = is_divided
        for word in {word for part in parts for word in WORD.findall(part)}:
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
        self.n_joined = self.n_kept = 0
        self.joined: list[str] = []
        self.kept: list[str] = []

    def join(self, former: str, text: str) -> tuple[str, str]:
        """Return the former of two lines, without the hyphen that divides a word, and what stands between them."""
        divided = DIVIDED.search(former) if former[-1] in HYPHENS else None
        if divided is None:
            return former, "" if WITHOUT_SPACES.match(former[-1]) and WITHOUT_SPACES.match(text) else " "
        first, hyphen = divided.groups()
        following = FIRST_WORD.match(text)
        if following is None:
            return former, " "
        second = following[0]
        if hyphen in "-‐":
            if second in SUSPENDED:
                return former, " "
            is_word = second[0].islower() and (
                first + second in self._known or first not in self._known or second not in self._known
            )
        else:
            is_word = True
        if not is_word:
            self.n_kept += 1
            if len(self.kept) < N_EXAMPLES:
                self.kept.append(f"{first}{hyphen}{second}")
            return former, ""
        self.n_joined += 1
        if len(self.joined) < N_EXAMPLES:
            self.joined.append(first + second)
        return former[:-1], ""
