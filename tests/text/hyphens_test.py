"""Words that line ends divide are joined where they are one word."""

from elmo_plugin.text.line_forms import Hyphens, KnownWords


def known(*lines: str) -> Hyphens:
    words = KnownWords()
    words.add(lines)
    return Hyphens(words)


def joined(hyphens: Hyphens, former: str, text: str) -> str:
    line, joint = hyphens.join(former, text)
    return line + joint + text


def test_a_hyphen_goes_if_the_word_is_known_or_its_parts_are_not() -> None:
    hyphens = known("We will erzählen of a well that is known, and an undertow under a tow.")
    assert joined(hyphens, "erzäh-", "len") == "erzählen"
    assert joined(hyphens, "ver-", "gessen") == "vergessen"
    assert joined(hyphens, "well-", "known") == "well-known"
    assert joined(hyphens, "under-", "tow") == "undertow"
    assert hyphens.joined.total() == 3
    assert hyphens.kept == {"well-known": 1}


def test_soft_hyphens_always_go_and_others_stay() -> None:
    hyphens = known("well known")
    assert joined(hyphens, "well\u00ad", "known") == "wellknown"
    assert joined(hyphens, "be¬", "fiehlt") == "befiehlt"
    assert joined(hyphens, "Anna-", "Maria") == "Anna-Maria"
    assert joined(hyphens, "Haupt-", "und Nebensatz") == "Haupt- und Nebensatz"
    assert joined(hyphens, "he said -", "and left") == "he said - and left"


def test_the_parts_of_a_divided_word_are_not_known() -> None:
    hyphens = known("we saw und er-", "zäh war es")
    assert joined(hyphens, "er-", "zäh") == "erzäh"
