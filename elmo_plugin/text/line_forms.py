"""Raw lines → parts of paragraphs: what lines are, where a paragraph ends, and which words a line end divides."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from typing import Optional
from zlib import crc32

import numpy as np

WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
HYPHENS = "-‐¬\u00ad"
DIVIDED = re.compile(rf"([^\W\d_]+)([{HYPHENS}])\n([^\W\d_]+)")
PARTS = re.compile(rf"(?<!\S)\S++(?<=[{HYPHENS}])\n\S*")
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
        divided = DIVIDED.search(f"{former}\n{text}") if former[-1] in HYPHENS else None
        if not divided or (divided[2] in "-‐" and divided[3] in SUSPENDED):
            return former, "" if WITHOUT_SPACES.match(former[-1]) and WITHOUT_SPACES.match(text) else " "
        first, hyphen, second = divided.groups()
        is_word = hyphen not in "-‐" or (
            second[0].islower()
            and (first + second in self._known or first not in self._known or second not in self._known)
        )
        if is_word:
            self.joined[first + second] += 1
            return former[:-1], ""
        self.kept[f"{first}{hyphen}{second}"] += 1
        return former, ""


FINAL_MARKS = ".!?…。！？｡．؟۔।॥։።။។៕།༎"
FINAL_MARK = re.compile(rf"[{re.escape(FINAL_MARKS)}][\W_]{{0,4}}$")
"""A mark that ends a sentence, and what may follow it: quotation marks, brackets."""
ABBREVIATION = re.compile(r"(?:^|[^\w.])(?:[^\W\d_]|[A-Z][a-z]{1,2})\.$")
ENDS_INSIDE = re.compile(
    r"[.!?…](?<=[^\W\d_]{2}.)[\"'”’»)]* +\W?[^\W\d_]" rf"|[{re.sub('[.!?…]', '', FINAL_MARKS)}](?=\W{{0,4}}[^\W\d_])"
)
OPEN_AT_THE_END = tuple(",;‐-¬\u00ad、，；،؛")
"""Marks after which a sentence always goes on."""
FIRST_LETTER = re.compile(r"[^\w\n]{0,3}([^\W\d_])")
BULLETS = "*•·‣▪◦"
LIST_ITEM = re.compile(rf"[{BULLETS}] |\(?\d{{1,3}}[.)] |[a-z]\) |[-–—]")
GOES_ON = ",.;:)]?!"
"""A line that begins with one of these marks continues the sentence of the line before."""
PAGE_BREAK = "\f"
NOTHING, BLANK, PAGE = range(3)
"""What comes before a line: another one, a blank line, or the end of a page."""
WIDEST = 2000
"""Longer lines are counted as lines of this many characters."""

WIDEST_WRAPPED = 300
"""Wider lines are paragraphs, unless many end inside a sentence: headings of an encyclopedia have no final mark."""

WRAPPED, PARAGRAPHS, SENTENCES = FORMS = ("wrapped", "paragraphs", "sentences")
CELLS = "cells"
"""The form of the lines in the cells of a table: each ends a paragraph."""
MEANINGS = {
    WRAPPED: "wrapped",
    PARAGRAPHS: "one paragraph per line",
    SENTENCES: "one sentence per line",
    CELLS: "texts of a table",
}


class LineForm:
    """Count what the lines of a file look like, and guess what they are.

    >>> form = LineForm()
    >>> form.add(["It rained and it rained, and", "nobody of them went out, until", "the night came."])
    >>> form.guess()
    'wrapped'
    """

    def __init__(self) -> None:
        self._n = Counter[str]()  # of lines with a property, and of the ends of lines in a place
        self._widths, self._open_widths = Counter[int](), Counter[int]()
        self._is_open = self._after_blank = False  # the last line that is not blank, and the next one

    def add(self, lines: Iterable[str]) -> None:
        """Count further lines of the file."""
        n = self._n
        for line in map(str.strip, lines):
            if not line:
                self._after_blank = True
                continue
            letter = first_letter(line)
            inside = ENDS_INSIDE.findall(line[:WIDEST])
            place = "blocks" if self._after_blank else "within"
            n.update(
                {
                    "lines": 1,
                    "lower": letter.islower(),
                    "upper": letter.isupper(),
                    "columns": line.count("\t") > 1,
                    "inside": len(inside),
                    "inside_lower": sum(end[-1].islower() for end in inside),
                    "cut": line.endswith(OPEN_AT_THE_END),
                    place: n["lines"] > 0,
                    f"open {place}": self._is_open,
                    "continued": self._is_open and letter.islower(),
                }
            )
            width = min(len(line), WIDEST)
            self._is_open, self._after_blank = is_open(line), False
            self._widths[width] += 1
            self._open_widths[width] += self._is_open

    @property
    def width(self) -> float:
        """Return the width that nine lines in ten do not exceed."""
        return self._quantile(0.9)

    @property
    def is_spaced(self) -> bool:
        """Return whether blank lines stand inside sentences, as between verses: blocks end without a final mark."""
        return self._n["open blocks"] > 0.2 * self._n["blocks"] > 2

    def guess(self) -> Optional[str]:
        """Return what the lines are, or `None` if there is no line, or if they are none of the three forms."""
        n, n_lines = self._n, self._n["lines"]
        if not n_lines or n["columns"] > n_lines / 2:
            return None
        # In a text whose sentences begin with small letters, a line that begins with one may be a sentence.
        is_lower = n["inside_lower"] > n["inside"] / 2 or n["lower"] > 0.95 * n_lines
        continued = (n["cut"] if is_lower else max(n["cut"], n["continued"])) / n_lines
        width, n_open = self.width, self._open_widths.total()
        n_full = sum(count for length, count in self._open_widths.items() if 0.6 * width <= length <= 1.2 * width)
        is_even = width >= 25 and n_full > 0.6 * n_open and n["upper"] < 0.8 * n_lines
        breaks_sentences = self._quantile(0.5) >= 35 and continued > 0.04
        # Sentences end where blank lines are, and not at other line ends.
        ends_with_blocks = (
            n["blocks"] > 0
            and n["open within"] > 0.5 * n["within"] > 0.15 * n_lines
            and n["open blocks"] + self._is_open < 0.5 * (n["blocks"] + 1)
        )
        if (continued > 0.09 and width >= 20) or (
            width <= WIDEST_WRAPPED
            and (ends_with_blocks or (n_open > 0.35 * n_lines and (is_even or breaks_sentences)))
        ):
            return WRAPPED
        return PARAGRAPHS if n["inside"] > 0.15 * n_lines else SENTENCES

    def _quantile(self, share: float) -> float:
        widths, counts = zip(*self._widths.items(), strict=True)
        return float(np.quantile(widths, share, weights=counts, method="inverted_cdf"))


def _is_heading(line: str) -> bool:
    return len(line) > 5 and line.isupper()


def is_open(line: str) -> bool:
    """Return whether no sentence ends at the end of a line: it has no final mark, or that of an abbreviation."""
    return not FINAL_MARK.search(line[-6:]) or ABBREVIATION.search(line[-6:]) is not None


def first_letter(line: str) -> str:
    """Return the letter that begins a line, perhaps after a few marks, or an empty string."""
    found = FIRST_LETTER.match(line)
    return found[1] if found else ""


def join_lines(lines: Iterable[str], form: str, layout: LineForm, hyphens: Hyphens) -> Iterator[str]:
    r"""Yield the lines of a file as parts of paragraphs: the last part of a paragraph ends with a newline.

    # Parameters

    lines : `Iterable[str]`
        The lines, with the white space that indents them.
    form : `str`
        `wrapped` or `paragraphs`.
    layout : `LineForm`
        What was counted in these lines.
    hyphens : `Hyphens`
        Joins the words that a line end divides.
    """
    end = ("", 0, NOTHING)
    for (former, former_indent, _), (text, indent, gap) in pairwise(chain(_texts(lines), [end])):
        # What surrounds a page number says nothing about paragraphs.
        if not text or _ends_paragraph(former, text, form, layout, indent > former_indent, gap == BLANK):
            yield f"{former}\n"
        else:
            yield "".join(hyphens.join(former, text))


def _texts(lines: Iterable[str]) -> Iterator[tuple[str, int, int]]:
    """Yield the text of each line that is not blank, the characters that indent it, and what comes before it."""
    gap = NOTHING
    for line in lines:
        text = line.strip()
        gap = max(gap, PAGE if PAGE_BREAK in line else NOTHING if text else BLANK)
        if text:
            yield text, len(line) - len(line.lstrip()), gap
            gap = NOTHING


def _ends_paragraph(former: str, text: str, form: str, layout: LineForm, is_indented: bool, has_gap: bool) -> bool:
    """Return whether a paragraph ends between two lines of text."""
    if form == CELLS:
        return True
    goes_on = is_open(former)
    if goes_on and text[0] not in BULLETS and (first_letter(text).islower() or text[0] in GOES_ON):
        return False
    if form == PARAGRAPHS or _is_heading(former) != _is_heading(text):
        return True
    if has_gap:
        return not (goes_on and layout.is_spaced)
    if not goes_on:
        return is_indented or bool(LIST_ITEM.match(text))
    return (is_indented and len(former) < 0.7 * layout.width) or text[0] in BULLETS
