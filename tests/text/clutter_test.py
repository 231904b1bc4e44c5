"""Page numbers, running heads and the frame of Project Gutenberg."""

from elmo_plugin.text.clutter import FRAME, HEADS, PAGE_NUMBERS, Clutter

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
    clutter = Clutter()
    clutter.add(BOOK)
    text = " ".join(" ".join(clutter.sort(BOOK, drop=True)).split())
    assert text == (
        "Chapter 1 Chapter 2 Chapter 3 It rained, and the men of the village went home. It rained all day, and the "
        "women went too. Nobody of them ever came back. It was in"
    )
    assert clutter.counts == {FRAME: 4, PAGE_NUMBERS: 2, HEADS: 3}
    assert clutter.examples[HEADS] == ["THE SHIP 13", "THE SHIP 15", "THE SHIP 17"]


def test_without_cleaning_all_lines_stay() -> None:
    clutter = Clutter()
    clutter.add(BOOK)
    assert list(clutter.sort(BOOK, drop=False)) == BOOK
    assert clutter.counts[HEADS] == 3
