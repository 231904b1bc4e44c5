"""Characters that stand for others are replaced and counted."""

from elmo_plugin.text.spelling import Spelling


def test_ligatures_long_s_spaces_and_accents() -> None:
    spelling = Spelling()
    line = "die Conſtitution ﬁndet \u00ab\u00a0be\u00adfiehlt\u00a0\u00bb cafe\u0301\u200b"
    assert spelling.plain(line) == "die Constitution findet « befiehlt » café"
    assert spelling.counts["ligatures"] == spelling.counts["long s"] == spelling.counts["composed letters"] == 1
    assert spelling.counts["other spaces"] == spelling.counts["characters without a width"] == 2
    assert spelling.plain("می\u200cروم") == "می\u200cروم"  # the non-joiner is spelling


def test_a_soft_hyphen_at_a_line_end_is_left_for_the_next_line() -> None:
    assert Spelling().plain("  be\u00adfiehlt und ge\u00ad\n") == "  befiehlt und ge\u00ad"
