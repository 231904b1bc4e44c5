"""Page numbers, running heads and the frames of Project Gutenberg."""

from collections import Counter, defaultdict
from collections.abc import Callable

import pytest

from elmo_plugin.text.clutter import FRAMES, HEADS, PAGE_NUMBERS, Clutter

BOOK = """Title page
*** START OF THE PROJECT GUTENBERG EBOOK ***
Chapter 1
Chapter 2
Chapter 3
It rained, and the men of the

- 12 -

THE SHIP 13

village went home. It rained all day, and the

THE SHIP 15

women went too. Nobody of them ever

THE SHIP 17

came back. It was in
1984
*** END OF THE PROJECT GUTENBERG EBOOK ***
Licence""".splitlines()


def test_what_is_no_text_is_found_counted_and_left_out() -> None:
    clutter, found = Clutter(), defaultdict[str, Counter[str]](Counter)
    clutter.add(BOOK)
    text = " ".join(" ".join(clutter.sort(BOOK, True, found)).split())
    assert text == (
        "Chapter 1 Chapter 2 Chapter 3 It rained, and the men of the village went home. It rained all day, and the "
        "women went too. Nobody of them ever came back. It was in 1984"
    )
    assert {kind: lines.total() for kind, lines in found.items()} == {FRAMES: 4, PAGE_NUMBERS: 1, HEADS: 3}
    assert list(found[HEADS]) == ["THE SHIP 13", "THE SHIP 15", "THE SHIP 17"]


def test_without_cleaning_all_lines_stay() -> None:
    clutter, found = Clutter(), defaultdict[str, Counter[str]](Counter)
    clutter.add(BOOK)
    assert list(clutter.sort(BOOK, False, found)) == BOOK
    assert found[HEADS].total() == 3


def left_out(lines: list[str]) -> list[str]:
    clutter = Clutter()
    clutter.add(lines)
    kept = list(clutter.sort(lines, True, defaultdict(Counter)))
    return [line.strip() for line, text in zip(lines, kept, strict=True) if line != text]


START, END = "*** START OF THE PROJECT GUTENBERG EBOOK X ***", "*** END OF THE PROJECT GUTENBERG EBOOK X ***"
NAME, LICENCE_END = "The Project Gutenberg eBook of X", "email newsletter to hear about new eBooks."
SMALL_PRINT = "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*"


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([NAME, "by A.", START, "One.", END, "Licence.", NAME, START, "Two.", END, "Licence."], ["One.", "Two."]),
        ([START, "One.", END, "Licence.", LICENCE_END, "Two.", NAME, START, "Three."], ["One.", "Two.", "Three."]),
        (["One.", NAME, START, "Two.", END, LICENCE_END, "Three."], ["One.", "Two.", "Three."]),
        ([NAME, SMALL_PRINT, "One.", "End of the Project Gutenberg Etext of X", "Thanks."], ["One."]),
        (["One.", END, "Licence."], ["One."]),
        ([f"{START[:-4]}, A VERY", "LONG", "TITLE ***", "One.", "***", "Two."], ["One.", "***", "Two."]),
        ([START, "One.", "***", "Two."], ["One.", "***", "Two."]),
        ([START, "One.", END, LICENCE_END, "", "*** END: FULL LICENSE ***", "Two."], ["One.", "", "Two."]),
        ([START, "One.", START, "Two."], ["One.", "Two."]),
    ],
)
def test_each_book_of_project_gutenberg_loses_its_own_frame(lines: list[str], text: list[str]) -> None:
    assert [line for line in lines if line not in left_out(lines)] == text


PAGE = [f"the {n} men went" for n in range(12)]


@pytest.mark.parametrize(
    ("head", "is_head"),
    [
        (lambda page: ["", "THE SHIP", ""], True),
        (lambda page: ["", f"{page} The ship", ""], True),
        (lambda page: [f"THE SHIP {page}", "\fand"], True),
        (lambda page: [f"\f{page} THE SHIP", "and"], True),
        (lambda page: [f"All the days were {page}"], False),
        (lambda page: ["All the days were", f"{page}"], False),
        (lambda page: ["", f"All the days were {page}", "and then", ""], False),
        (lambda page: [".", "", f"Psalm {page}", "", "And"], False),
        (lambda page: ["", f"{1900 + 10 * page}", ""], False),
    ],
)
def test_a_running_head_stands_alone_or_at_the_end_of_a_page(head: Callable[[int], list[str]], is_head: bool) -> None:
    lines = [line for page in range(1, 9) for line in (*PAGE, *head(page))]
    heads = [line.strip() for page in range(1, 9) for line in head(page) if "SHIP" in line or "ship" in line]
    assert left_out([*lines, *PAGE]) == (heads if is_head else [])


def test_verses_between_blank_lines_and_lines_at_small_distances_are_no_heads() -> None:
    verses = ["Sing to the sea", "and the night and", "The wind, and"] * 20
    assert not left_out([line for verse in verses for line in (verse, "")])
    song = [line for n in range(20) for line in ("the rain and", "the wind and", "the sea and", "", "Heave away", "")]
    assert not left_out(song)
