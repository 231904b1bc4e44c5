"""Characters that stand for others are replaced and counted."""

import unicodedata

import pytest

from elmo_plugin.text.clutter import Spelling


def test_ligatures_long_s_spaces_and_accents() -> None:
    spelling = Spelling()
    line = "die Conſtitution ﬁndet \u00ab\u00a0be\u00adfiehlt\u00a0\u00bb cafe\u0301\u200b"
    assert spelling.plain(line) == "die Constitution findet « befiehlt » café"
    assert spelling.counts["ligatures"] == spelling.counts["long s"] == spelling.counts["composed letters"] == 1
    assert spelling.counts["other spaces"] == spelling.counts["characters without a width"] == 2
    assert spelling.plain("می\u200cروم") == "می\u200cروم"  # the non-joiner is spelling


def test_a_soft_hyphen_at_a_line_end_is_left_for_the_next_line() -> None:
    assert Spelling().plain("  be\u00adfiehlt und ge\u00ad\n") == "  befiehlt und ge\u00ad"


@pytest.mark.parametrize(
    ("line", "plain", "n_letters"),
    [
        ("\u0958\u0959 \u0958\u0959\u095a", "\u0958\u0959 \u0958\u0959\u095a", 5),  # form C has two characters for each
        ("cafe\u0301 e\u0301te\u0301", "café été", 3),
        ("\u1112\u1161\u11ab", "한", 1),
        ("café", "café", 0),
    ],
)
def test_letters_in_another_form_are_counted(line: str, plain: str, n_letters: int) -> None:
    spelling = Spelling()
    assert spelling.plain(line) == unicodedata.normalize("NFC", plain)
    assert spelling.counts["composed letters"] == n_letters


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        ("The\u200bship", "The ship"),
        ("ភាសា\u200bខ្មែរ", "ភាសា ខ្មែរ"),
        ("wo\u2060rd \u202bword\u202c", "word word"),
        ("a\u3000b\u2028c", "a b c"),
    ],
)
def test_a_zero_width_space_separates_words_and_other_marks_without_a_width_do_not(line: str, plain: str) -> None:
    assert Spelling().plain(line) == plain
