"""What raw text has that is no text: characters that stand for others, page numbers, running heads, frames, markup."""

import re
import unicodedata
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Optional, Union

from elmo_plugin.text.line_forms import BLANK, NOTHING, PAGE, PAGE_BREAK, first_letter, is_open

SPECIAL: list[tuple[str, re.Pattern[str], Union[str, Callable[[re.Match[str]], str]]]] = [
    ("ligatures", re.compile("[\ufb00-\ufb06]"), lambda found: unicodedata.normalize("NFKC", found[0])),
    ("long s", re.compile("ſ"), "s"),
    ("other spaces", re.compile(r"[^\S \t\n\r\f\v]"), " "),
    # The joiners U+200C and U+200D, as in Persian and Hindi, stay.
    (
        "characters without a width",
        re.compile("[\u200e\u200f\u061c\u202a-\u202e\u2060-\u206f\ufeff]|\u00ad(?!\\s*$)"),
        "",
    ),
    ("characters without a width", re.compile("\u200b"), " "),  # a zero-width space separates words, as in Khmer
]
"""What is replaced, by its kind: the characters, and what stands for them."""


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
        plain = unicodedata.normalize("NFC", line)
        if plain != line:
            before, after = Counter(line), Counter(plain)
            # `é` of two characters, or the one character of Hindi that becomes two: each is one letter.
            self.counts["composed letters"] += min((before - after).total(), (after - before).total())
        for kind, characters, others in SPECIAL:
            plain, n_replaced = characters.subn(others, plain)
            self.counts[kind] += n_replaced
        return plain.rstrip(" \r\n")


PAGE_NUMBER = re.compile(r"[\[({<|–—-]? ?(?:page|seite|página|s\.|p\.|pg\.)? ?\d{1,3} ?[\])}>|–—-]?$", re.IGNORECASE)
FRAME = re.compile(
    r"(?P<start>\*\*\* ?START OF TH(?:E|IS) PROJECT GUTENBERG)"
    r"|(?P<end>\*\*\* ?END OF TH(?:E|IS) PROJECT GUTENBERG|^End of (?:the |this )?Project Gutenberg)"
    r"|(?P<small_print>\*END ?\*? ?THE SMALL PRINT)"  # of books before 2003: the end of a header, or of a licence
    r"|(?P<licence>newsletter to hear about new e-?books|\*\*\* ?END: FULL LICENSE)"
    r"|(?P<name>project gutenberg)",
    re.IGNORECASE,
)
MARKUP = re.compile(r"</?(?:a|b|br|div|em|h\d|i|img|li|p|span|strong|td|tr|ul)\b[^<>]*>|&(?:\w{2,8}|#\d+);")
AT_THE_EDGE = re.compile(r"^\d{1,4}\b\W*|\W*\b\d{1,4}$")
LINES_OF_A_MARK = 6
"""The most lines of a mark that begins a book, if its title is long."""
LONGEST_HEAD = 80
FEWEST_HEADS = 3
"""How often a line interrupts a sentence or stands beside a page number before it is a running head."""
LINES_OF_A_PAGE = 10
"""The least distance between two heads that have no page number."""
PAGE_NUMBERS, HEADS, FRAMES = "page numbers", "running heads", "lines of Project Gutenberg's header and licence"


class Clutter:
    """Find the lines of a file that are not its text, and leave them out.

    A page number or a running head stands alone: between blank lines, or at the end or the beginning of a page that a
    form feed ends. A head is a short line without a final mark that returns, with another page number or at the
    distance of a page, and that mostly interrupts a sentence or stands beside a page number.

    A file may hold several books of Project Gutenberg. The header of the first begins with the file, that of a later
    one with the name of the project, and a licence ends with its last words, or with the next book.
    """

    def __init__(self) -> None:
        self.n_markup = 0
        self._n_lines = self._n_short = 0  # the latter: lines that stand alone, and do not end a sentence
        self._former = [(0, "", BLANK)] * 2  # number and text of the last lines with text, and what comes before
        self._gap = BLANK
        self._kinds: dict[int, str] = {}  # of the lines that are no text
        self._heads: dict[str, list[tuple[int, bool]]] = {}  # places, and whether a sentence is interrupted there
        self._frame_edges: list[int] = []  # where a frame begins, where it ends, and so on
        self._header: Optional[int] = 1  # where the header of the next book begins
        self._is_named = self._in_book = False
        self._mark_ends = 0  # where the last line of a mark is at the latest

    def add(self, lines: Iterable[str]) -> None:
        """Look at further lines of the file."""
        for line in lines:
            self._n_lines += 1
            text = line.strip()
            self._gap = max(self._gap, PAGE if PAGE_BREAK in line else NOTHING if text else BLANK)
            if not text:
                continue
            self.n_markup += MARKUP.search(text) is not None
            if found := FRAME.search(text):
                self._add_frame(found)
            elif text.endswith("***") and self._n_lines < self._mark_ends:
                self._frame_edges[-1] = self._n_lines + 1
                self._mark_ends = 0
            self._add_line(text)

    def sort(self, lines: Iterable[str], drop: bool, found: dict[str, Counter[str]]) -> Iterator[str]:
        """Yield the lines of the file, only those that are text if `drop`, and count the others by their kinds."""
        self._gap = max(self._gap, BLANK)
        self._add_line("")  # the end of the file
        # Of verses between blank lines, some return, too.
        for places in self._heads.values() if self._n_short < self._n_lines / 4 else []:
            if sum(interrupts for _, interrupts in places) >= max(FEWEST_HEADS, len(places) / 3):
                self._kinds.update((number, HEADS) for number, _ in places)
        for number, line in enumerate(lines, 1):
            kind = FRAMES if bisect(self._frame_edges, number) % 2 else self._kinds.get(number)
            if kind and (text := line.strip()):
                found[kind][text] += 1
                if drop:
                    line = "" if kind == FRAMES else PAGE_BREAK
            yield line

    def _add_frame(self, found: "re.Match[str]") -> None:
        mark, number, edges = found.lastgroup, self._n_lines, self._frame_edges
        in_frame = len(edges) % 2 == 1
        if mark == "start" or (mark == "small_print" and not in_frame):
            edges += [number + 1] if in_frame else [self._header or number, number + 1]
            self._header, self._in_book = None, True
            self._mark_ends = 0 if found.string.endswith("*") else number + LINES_OF_A_MARK
        elif mark == "end" and not in_frame:
            edges.append(number)
            self._header, self._in_book = None, False
        elif mark in ("small_print", "licence"):
            edges += [number + 1] if in_frame else [number, number + 1]
            self._is_named = False
        elif not self._in_book and not in_frame and not self._is_named:
            self._header, self._is_named = number, True

    def _add_line(self, following: str) -> None:
        """Look at the line before a line, now that both of its neighbours are known."""
        self._former = [*self._former[-2:], (self._n_lines, following, self._gap)]
        gap_after, self._gap = self._gap, NOTHING
        (_, before, _), (number, line, gap), _ = self._former
        is_alone = (gap and gap_after) or PAGE in (gap, gap_after)
        if not line or not is_alone or len(line) > LONGEST_HEAD or not is_open(line):
            return
        if PAGE_NUMBER.match(line):
            self._kinds[number] = PAGE_NUMBERS
            return
        self._n_short += 1
        words = _without_number(line)
        # In a table of contents, such lines follow each other.
        if any(map(str.isalpha, words)) and words not in (_without_number(before), _without_number(following)):
            places = self._heads.setdefault(words, [])
            is_far = len(words) < len(line) or not places or number - places[-1][0] >= LINES_OF_A_PAGE
            interrupts = is_open(before) and not (first_letter(line).islower() or first_letter(following).isupper())
            beside_number = PAGE_NUMBER.match(before) or PAGE_NUMBER.match(following)
            places.append((number, is_far and bool(interrupts or beside_number)))


def _without_number(line: str) -> str:
    return AT_THE_EDGE.sub("", line).casefold()
