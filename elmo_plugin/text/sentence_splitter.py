"""Paragraphs → tokenized sentences: sentencex finds the ends of sentences, and spaCy's rules split the tokens."""

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate, groupby, pairwise
from typing import Optional

import sentencex

from elmo_plugin.text.line_forms import FINAL_MARKS
from elmo_plugin.text.tokenizer import SpacyBlankTokenizer

PIECE = 20_000
"""A longer part of a paragraph is split before its end is known; its last sentence is split again with what follows."""
LONGEST_SENTENCE = 100_000
"""A sentence with more characters is cut at white space, which bounds the memory."""

QUOTATION_MARKS = re.compile(r"[\"“”„«»‹›]|['’‘](?:(?<!\w.)|(?!\w))|‚(?<!\w.)")
"""What sentencex is not shown, because it never ends a sentence between two of these marks. An apostrophe stays."""
ENDS = re.escape(FINAL_MARKS)
OPENING_BRACKETS = "([{（［｛【〔「『《〈"
OPENING = OPENING_BRACKETS + "¿¡\"“”„«»‹›'’‘‚"
DASHES = "-–—"
HAS_WORD = re.compile(r"[^\W_]")
FIRST_LETTER = re.compile(r"[\W_]*(\w)")
OPENERS, CLOSERS = r"(\[{（［｛【〔", r")\]}）］｝】〕"
NO_BRACKET = f"[^{OPENERS}{CLOSERS}]"
IN_BRACKETS = re.compile(
    rf"(?:^|(?<=[{ENDS}{CLOSERS}]))(\s*)[{OPENERS}]"
    rf"((?:{NO_BRACKET}|[{OPENERS}]{NO_BRACKET}*[{CLOSERS}])*[{ENDS}]\s*)[{CLOSERS}]"
)
"""Whole sentences in brackets, which sentencex ends nowhere. A pair of brackets may stand inside."""
STOPS = str.maketrans("។།", "။။")
"""The full stops of Khmer and Tibetan, which sentencex does not know, as the Burmese one, which it knows."""
GREEK = str.maketrans(";\u037e", "??")


def stop_after(words: str, before: str = "", flags: re.RegexFlag = re.NOFLAG) -> "re.Pattern[str]":
    r"""Return a pattern of the full stop after one of the words, and before what matches `before`.

    The pattern begins with the stop, for which a search is fast, and looks behind for the word.
    """
    same_length = [list(group) for _, group in groupby(sorted(words.split(), key=len), len)]
    behind = "|".join(rf"(?<=\b(?:{'|'.join(group)})\.)" for group in same_length)
    return re.compile(rf"\.(?:{behind}){before}", flags)


NUMBERED = "abb art bd cap ch chap col cols fig figs fol kap no nos nr pág págs pp sec tab tom vol vols"
ORDINAL = re.compile(r"\.(?:(?<=(?<![\d.,:/-])\d\.)|(?<=(?<![\d.,:/-])\d\d\.))(?= [^\W\d])")
INITIAL = re.compile(r"\.(?<=\b[A-ZÀ-ÖØ-ÞΑ-ΩЀ-Я]\.)(?= [^\W\d_])")
PRAENOMINA = "Ap App Cn Mam Ser Sex Sp Ti Tib"
DATES = "Kal Ian In Feb Febr Mart Apr Mai Iul Iun Quint Sext Aug Sep Sept Oct Nov Dec Cos Coss cos coss HS Scr"
MASKS = [
    ("", stop_after(NUMBERED, "(?= ?\\d)", re.IGNORECASE), "_"),
    ("cs da de et fi hr hu is lb lv nb nn no sk sl sr tr", ORDINAL, "_"),  # `der 2. Band`
    # `M. Dupont`; sentencex knows it in others
    ("be bg ca cs da es fr gl it kk mk nl oc pl pt ru sk sr uk", INITIAL, "_"),
    ("la", stop_after(f"{PRAENOMINA} {DATES}"), "_"),
    ("la", stop_after("Non Id Eid", "(?= [A-Z])"), "_"),
    # Words that sentencex takes for abbreviations: `She wrote to me. John did not.`
    ("en", stop_after("No no Me me Ok ok OK art fed ill may miss"), "!"),
    ("", re.compile(r"[!?](?=[!?])"), "x"),  # sentencex does not end a sentence at `!!` before `I`
    ("", QUOTATION_MARKS, " "),
    ("", IN_BRACKETS, r"\1 \2 "),
]
"""What is hidden from sentencex, or shown as another mark, so that sentences end where they should, by languages, or in
all if there are none. Each mask is as long as what it hides."""


class SentenceSplitter:
    r"""Split text into tokenized sentences. Nothing is downloaded.

    >>> list(SentenceSplitter("en").sentences(["Mr. Orrin didn't ", "come. Why?\n"]))
    [['Mr.', 'Orrin', 'did', "n't", 'come', '.'], ['Why', '?']]

    # Parameters

    language : `str`
        The code of the language, or `xx` for any, as in `SpacyBlankTokenizer`.
    """

    def __init__(self, language: str = "en") -> None:
        self._language = language
        self.words = SpacyBlankTokenizer(language).words
        self._masks = [
            (pattern, mask) for languages, pattern, mask in MASKS if not languages or language in languages.split()
        ]

    def sentences(self, parts: Iterable[str]) -> Iterator[list[str]]:
        r"""Yield the tokens of each sentence of a text that comes in parts. A token never contains white space.

        A part that ends with a newline ends a paragraph, and thus a sentence; other parts are continued by the next.
        """
        return filter(None, map(self.words, self._texts(parts)))

    def split(self, text: str) -> list[str]:
        """Return the sentences of a paragraph, which together are the paragraph."""
        masked = text.translate(GREEK if self._language in ("el", "grc") else STOPS)
        for pattern, mask in self._masks:
            masked = pattern.sub(mask, masked)
        found = accumulate(map(len, sentencex.segment(self._language, masked)))
        ends = [end if end == len(text) else _before_opening_marks(text, end) for end in found]
        starts_lower = [_starts_lower(text, start) for start in [0, *ends][:-1]]
        after = [text[max(end - 8, 0) : end].rstrip()[-1:] for end in ends]
        first_letters = [lower for lower, mark in zip(starts_lower, [".", *after], strict=False) if mark == "."]
        # A text whose sentences begin with small letters shows its ends by marks alone.
        is_lower = first_letters.count(True) > first_letters.count(False)
        kept = [
            end
            for end, mark, continues in zip(ends, after, [*starts_lower, False][1:], strict=True)
            if not continues or (is_lower and not QUOTATION_MARKS.match(mark))
        ]
        sentences: list[str] = []
        for start, end in pairwise([0, *kept]):
            sentence = text[start:end]
            follows_dash = sentences and sentences[-1][0] in DASHES and not HAS_WORD.search(sentences[-1])
            is_mark = not HAS_WORD.search(sentence) and (sentence[0] not in DASHES or end == len(text))
            if sentences and (follows_dash or is_mark):
                sentences[-1] += sentence
            else:
                sentences.append(sentence)
        return sentences

    def _texts(self, parts: Iterable[str]) -> Iterator[str]:
        """Yield the sentences of parts that are joined."""
        rest, limit = "", PIECE
        for part in parts:
            rest += part.rstrip("\n")
            if part.endswith("\n"):
                yield from self.split(rest)
                rest = ""
            elif len(rest) > limit:
                *sentences, rest = self.split(rest)
                yield from sentences
                if len(rest) > LONGEST_SENTENCE:
                    cut = rest.rfind(" ", 0, LONGEST_SENTENCE) + 1 or LONGEST_SENTENCE
                    yield rest[:cut]
                    rest = rest[cut:]
                limit = len(rest) + PIECE
        yield from self.split(rest)


def _starts_lower(text: str, start: int) -> Optional[bool]:
    """Return whether the first letter from `start` is a small one, or `None` if there is none or it has no case."""
    letter = FIRST_LETTER.match(text, start)
    return None if letter is None or letter[1].lower() == letter[1].upper() else letter[1].islower()


def _before_opening_marks(text: str, end: int) -> int:
    """Return where a sentence ends if marks before `end` open the next one, or else `end`."""
    for mark in range(end - 1, max(end - 8, 0), -1):
        if text[mark].isspace():
            continue
        touches_next = not text[mark + 1].isspace()
        touches_former = not text[mark - 1].isspace() and text[mark - 1] not in OPENING
        opens = text[mark] in OPENING and not touches_former and (touches_next or text[mark] in "«‹„")
        if not opens and text[mark] not in OPENING_BRACKETS:
            break
        end = mark
    return end
