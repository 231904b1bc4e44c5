"""What editions and books add to a text: page numbers, running heads, the frame of Project Gutenberg, markup."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Optional

from elmo_plugin.text.line_forms import PAGE_BREAK, is_open, starts_lower

PAGE_NUMBER = re.compile(r"[\[({<|–—-]? ?(?:page|seite|página|s\.|p\.|pg\.)? ?\d{1,4} ?[\])}>|–—-]?$", re.IGNORECASE)
FRAME_START = re.compile(r"\*{3} ?START OF (?:THE|THIS) PROJECT GUTENBERG", re.IGNORECASE)
FRAME_END = re.compile(r"\*{3} ?END OF (?:THE|THIS) PROJECT GUTENBERG", re.IGNORECASE)
MARKUP = re.compile(r"</?(?:a|b|br|div|em|h\d|i|img|li|p|span|strong|td|tr|ul)\b[^<>]*>|&(?:\w{2,8}|#\d+);")
AT_THE_EDGE = re.compile(r"^\d{1,4}\b\W*|\W*\b\d{1,4}$")
LONGEST_HEAD = 80
FEWEST_HEADS = 3
"""How often a line interrupts a sentence or stands beside a page number before it is a running head."""
MOST_LINES = 100_000
"""Different short lines of a file that are counted; the rare ones are forgotten."""
PAGE_NUMBERS, HEADS, FRAME = "page numbers", "running heads", "lines of Project Gutenberg's header and licence"


class Clutter:
    """Find the lines of a file that are not its text, and leave them out.

    A line that holds only a number is a page number. A running head is a short line without a final mark that returns,
    with or without a number, and interrupts a sentence or stands beside a page number.
    """

    def __init__(self) -> None:
        self.n_markup = 0
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = {}
        self._heads: Counter[str] = Counter()
        self._start = self._n_lines = 0
        self._end: Optional[int] = None
        self._former: list[str] = []

    def add(self, lines: Iterable[str]) -> None:
        """Look at further lines of the file."""
        for line in map(str.strip, lines):
            self._n_lines += 1
            if not line:
                continue
            if "***" in line and FRAME_START.search(line) and not self._start:
                self._start = self._n_lines
            elif "***" in line and FRAME_END.search(line) and self._end is None:
                self._end = self._n_lines
            self.n_markup += MARKUP.search(line) is not None
            self._former = [*self._former[-2:], line]
            if len(self._former) == 3:
                self._count_head(*self._former)
        if len(self._heads) > MOST_LINES:
            self._heads = Counter({head: count for head, count in self._heads.items() if count > 1})

    def sort(self, lines: Iterable[str], drop: bool) -> Iterator[str]:
        """Yield the lines of the file, only those that are text if `drop`, and count the others."""
        for number, line in enumerate(lines, 1):
            text = line.strip()
            kind = None
            if number <= self._start or (self._end is not None and number >= self._end):
                kind = FRAME
            elif PAGE_NUMBER.match(text):
                kind = PAGE_NUMBERS
            elif self._heads[_head(text)] >= FEWEST_HEADS and is_open(text):
                kind = HEADS
            if kind is None or not text:
                yield line
                continue
            self.counts[kind] += 1
            examples = self.examples.setdefault(kind, [])
            if len(examples) < 10 and text not in examples:
                examples.append(text)
            yield PAGE_BREAK if drop else line

    def _count_head(self, former: str, line: str, following: str) -> None:
        if len(line) > LONGEST_HEAD or not is_open(line) or PAGE_NUMBER.match(line):
            return
        words = _head(line)
        has_number = len(words) < len(line) and AT_THE_EDGE.search(line)
        interrupts = is_open(former) and not starts_lower(line) and (starts_lower(following) or has_number)
        beside_number = PAGE_NUMBER.match(former) or PAGE_NUMBER.match(following)
        # In a table of contents, such lines follow each other.
        if words and (interrupts or beside_number) and words not in (_head(former), _head(following)):
            self._heads[words] += 1


def _head(line: str) -> str:
    return AT_THE_EDGE.sub("", line).casefold()
