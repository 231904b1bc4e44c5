"""What the lines of a text are taken to be, and which lines are joined."""

import random
import textwrap
from collections.abc import Iterable

import pytest

from elmo_plugin.text.line_forms import PARAGRAPHS, WRAPPED, Hyphens, KnownWords, LineForm, join_lines

WORDS = [
    "the",
    "sailor",
    "went",
    "over",
    "water",
    "and",
    "saw",
    "that",
    "nobody",
    "of",
    "them",
    "was",
    "there",
    "before",
]
VERSE = """Tyger Tyger, burning bright,
In the forests of the night;
What immortal hand or eye,
Could frame thy fearful symmetry?

In what distant deeps or skies
Burnt the fire of thine eyes?
On what wings dare he aspire,
What the hand, dare seize the fire?""".splitlines()


def prose(n_sentences: int, seed: int = 0) -> list[str]:
    """Return sentences of random words."""
    generator = random.Random(seed)
    sentences = []
    for _ in range(n_sentences):
        words = generator.choices(WORDS, k=generator.randint(3, 25))
        sentences.append(f"{' '.join(words).capitalize()}{generator.choice('...?!')}")
    return sentences


def paragraphs(n_sentences: int = 400) -> list[str]:
    sentences = prose(n_sentences)
    return [" ".join(sentences[start : start + 4]) for start in range(0, n_sentences, 4)]


def layout(lines: Iterable[str]) -> LineForm:
    form = LineForm()
    form.add(lines)
    return form


def joined(lines: list[str], form: str) -> list[str]:
    """Return the paragraphs."""
    return "".join(join_lines(lines, form, layout(lines), Hyphens(KnownWords()))).splitlines()


@pytest.mark.parametrize("width", [40, 60, 72, 100, 150])
@pytest.mark.parametrize("case", [str, str.lower])
def test_wrapped_lines_of_any_width_are_recognized(width: int, case: type[str]) -> None:
    lines = textwrap.wrap(" ".join(prose(400)), width)
    assert layout(map(case, lines)).guess() == "wrapped"
    assert layout(part for line in lines for part in (case(line), "")).guess() == "wrapped"


def test_other_forms_are_recognized() -> None:
    assert layout(VERSE).guess() == "wrapped"
    indented = [line for text in paragraphs() for line in textwrap.wrap(text, 70, initial_indent="    ")]
    assert layout(indented).guess() == "wrapped"
    assert layout(paragraphs()).guess() == "paragraphs"
    assert layout(map(str.lower, paragraphs())).guess() == "paragraphs"
    assert layout(prose(400)).guess() == "sentences"
    titles = [" ".join(line.split()[: 1 + number % 9]).strip(".?!") for number, line in enumerate(prose(400))]
    assert layout(titles).guess() == "sentences"
    assert layout(map(str.lower, titles)).guess() == "sentences"  # a chat
    assert layout(["a\tb\tc"] * 30).guess() is None
    assert layout([]).guess() is None


def test_front_matter_does_not_decide_the_form() -> None:
    titles = [f"Chapter {number}" for number in range(1200)]
    assert layout([*titles, *textwrap.wrap(" ".join(prose(4000)), 70)]).guess() == "wrapped"


def test_wrapped_paragraphs_are_the_same_with_blank_lines_and_with_indents() -> None:
    wanted = paragraphs()
    with_blanks = [line for text in wanted for line in [*textwrap.wrap(text, 70), ""]]
    with_indents = [line for text in wanted for line in textwrap.wrap(text, 70, initial_indent="    ")]
    assert joined(with_blanks, "wrapped") == wanted
    assert joined(with_indents, "wrapped") == wanted


def test_headings_and_lists_are_paragraphs_of_their_own() -> None:
    lines = ["CHAPTER ONE", "It rained, and", "nobody came.", "* salt", "* bread and", "cheese", "He ate.", "1. A man"]
    assert joined(lines, "wrapped") == [
        "CHAPTER ONE",
        "It rained, and nobody came.",
        "* salt",
        "* bread and cheese He ate.",
        "1. A man",
    ]


def test_blank_lines_inside_sentences_end_nothing() -> None:
    lines = [part for line in VERSE * 3 if line for part in (line, "")]
    assert len(joined(lines, "wrapped")) == 9  # where a final mark stands
    assert joined(["He saw", "", "them all.", "", "It rained."], "paragraphs") == ["He saw them all.", "It rained."]
    assert joined(["consules P.", "Valerius", "", "abierunt."], "wrapped") == ["consules P. Valerius abierunt."]


def test_lines_of_chinese_are_joined_without_a_space() -> None:
    assert joined(["今日は", "雨。"], "wrapped") == ["今日は雨。"]


@pytest.mark.parametrize(
    "paragraph",
    ["यह है। वह था।", "Բարեւ։ Ինչպես ես։", "ሰላም። እንዴት ነህ።", "សួស្តី។ តើអ្នក។", "ང་ཡིན། ཁྱོད་རེད།", "من أنت؟ أنا هنا."],
)
def test_ends_inside_lines_are_seen_in_any_script(paragraph: str) -> None:
    assert layout([paragraph] * 30).guess() == "paragraphs"


@pytest.mark.parametrize("form", [WRAPPED, PARAGRAPHS])
@pytest.mark.parametrize("n_lines", [1, 2, 999, 1000, 1001, 1002, 5003])
def test_no_line_is_lost(form: str, n_lines: int) -> None:
    lines = [f"word{number}{'.' * (number % 7 == 0)}\n" for number in range(n_lines)]
    text = "".join(join_lines(lines, form, layout(lines), Hyphens(KnownWords())))
    assert text.split() == "".join(lines).split()
