r"""Text → sentences → tokens: sentencex finds the ends of sentences, and spaCy's rules split the tokens.

Nothing is downloaded. In tokenized text, ASCII white space separates tokens, and nothing else does: the space, the tab,
and `\n \r \f \v`. All other characters belong to tokens, no-break spaces included, so `" ".join(tokens)` has as many
tokens as before if none of them contains ASCII white space. Column files follow the same rule. `str.split`, and thus
bilm-tf and AllenNLP's `just_spaces`, also split at Unicode's other spaces.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING, Any, Optional, Union

import sentencex
from allennlp.data.tokenizers import Token, Tokenizer

from elmo_plugin.common import named_errors
from elmo_plugin.text.languages import ANY, check_language, has_rules
from elmo_plugin.text.line_forms import FINAL_MARKS

if TYPE_CHECKING:
    from spacy.tokens import Doc

WHITE_SPACE = " \t\n\r\f\v"
OTHER_SPACES = re.compile("[\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
"""The characters at which `str.split` splits and this package does not."""
TOKEN = re.compile(f"[^{WHITE_SPACE}]+")

logger = logging.getLogger(__name__)


def without_lone_surrogates(text: str) -> str:
    """Replace each lone surrogate by U+FFFD: JSON can contain them, but tokenizers cannot read them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def split_tokens(line: str) -> list[str]:
    """Return the tokens of a line. Warn about the first line of which `str.split` makes another number of tokens.

    >>> split_tokens("It cost 2\u00a0000 crowns .\\n")
    ['It', 'cost', '2\\xa0000', 'crowns', '.']
    """
    if not OTHER_SPACES.search(line):  # nearly all lines; `str.split` is several times as fast
        return line.split()
    tokens = TOKEN.findall(line)
    if len(tokens) != len(line.split()):
        logger.warning_once(  # type: ignore[attr-defined]
            "%r is one token: only ASCII white space separates tokens here. Python's str.split, bilm-tf and AllenNLP's "
            "just_spaces would split it. This is said only once; other tokens may contain such spaces too",
            next(token for token in tokens if OTHER_SPACES.search(token))[:100],
        )
    return tokens


LONGEST_RUN, LONGEST_RUN_OF_MARKS = 96, 32
"""Longer runs of characters without white space, and of marks alone, are cut, whatever the language: spaCy takes one
prefix or suffix after the other from the ends of a run, and each time searches the rest of it for the next."""
IDEOGRAPHS = re.compile(r"([\u2e80-\u303f\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]|(?!\w)[\uff00-\uffef])")
"""In Chinese, each character is a token, and so is a mark of its width."""
OTHER_MARKS = re.compile("([\u0589\u0965\u0f0d-\u0f12\u104a-\u104f\u1361-\u1368\u17d4-\u17d6\uff61])")
"""Marks of Armenian, Sanskrit, Tibetan, Burmese, Ethiopic, Khmer and Japanese, which spaCy would leave at the word."""
MARK = r"(?:[^\w\s]|_)"
PARTS_OF_A_RUN = [
    re.compile(rf"\S{{{LONGEST_RUN}}}(?=\S)"),
    re.compile(rf"{MARK}{{{LONGEST_RUN_OF_MARKS}}}(?={MARK})"),
]
MOST_STRINGS = 200_000
"""spaCy keeps every string that it has seen, in about 600 bytes. Beyond this number, its rules are loaded again. Until
then it remembers how it split each, of which its own limit is 10,000."""


@cache
def _rules(language: str) -> Any:
    """Return spaCy's tokenizer for a language, which all of ours share: to load that for English takes 0.3 s."""
    import spacy  # takes half as long as PyTorch

    # The pipeline itself rejects texts of more than a million characters, a limit meant for parsers. The tokenizer for
    # Chinese splits `Google` and `2024` into characters, too.
    rules = spacy.blank(ANY if language == "zh" else language).tokenizer
    if isinstance(rules, spacy.tokenizer.Tokenizer):
        rules.max_cache_size = MOST_STRINGS
    return rules


@Tokenizer.register("spacy_blank")
class SpacyBlankTokenizer(Tokenizer):
    """Split a text by spaCy's rules for its language. Whitespace is never a token.

    AllenNLP's own `spacy` tokenizer downloads a trained pipeline, but tokenization uses only these rules.

    >>> SpacyBlankTokenizer().tokenize("Don't panic.")
    [Do, n't, panic, .]

    Registered as a `Tokenizer` with name `spacy_blank`.

    # Parameters

    language : `str`, optional (default = `"en"`)
        The code of the language, or `xx` for any, whose rules are taken too where spaCy has none for a language.
        Raises `ConfigurationError` for a code that no language has and for a language whose rules need a library that
        is not installed.
    """

    def __init__(self, language: str = "en") -> None:
        check_language(language)
        self._language = language if has_rules(language) else ANY
        if self._language != language:
            logger.warning_once(  # type: ignore[attr-defined]
                f"language {language!r}: spaCy has no rules for its tokens, so those for any language (xx) split them"
            )
        with named_errors(
            f"'language': expected a language that spaCy can tokenize, got {language!r}", ImportError, AttributeError
        ):
            _rules(self._language)

    @property
    def stop_words(self) -> set[str]:
        """Return the words of the language that say little by themselves, in small letters."""
        from spacy.util import get_lang_class

        return get_lang_class(self._language).Defaults.stop_words

    def tokenize(self, text: str) -> list[Token]:
        """Return the tokens of `text` with their offsets. A lone surrogate becomes U+FFFD.

        No token of a language with rules is longer than `LONGEST_RUN` characters.
        """
        return [
            Token(token.text, start + token.idx, start + token.idx + len(token.text))
            for start, doc in self._docs(text)
            for token in doc
            if not token.is_space
        ]

    def words(self, text: str) -> list[str]:
        """Return the tokens of `text` as strings without white space, which some languages' exceptions contain."""
        return [word for _, doc in self._docs(text) for token in doc for word in token.text.split()]

    def _docs(self, text: str) -> Iterator[tuple[int, "Doc"]]:
        """Yield where each part begins that spaCy gets at once, and what it makes of the part."""
        rules = _rules(self._language)
        if len(rules.vocab.strings) > MOST_STRINGS:
            _rules.cache_clear()  # the next text loads them again
        patterns = PARTS_OF_A_RUN if hasattr(rules, "rules") else []  # Japanese, for example, has none
        text = without_lone_surrogates(text).replace("\u200b", " ")  # which separates words, as in Khmer
        start = 0
        for piece in (IDEOGRAPHS if self._language == "zh" else OTHER_MARKS).split(text):
            cuts = sorted({found.end() for pattern in patterns for found in pattern.finditer(piece)})
            if cuts:
                logger.warning_once(  # type: ignore[attr-defined]
                    "a text has more than %d characters, or %d marks, without white space: it is cut there, so that no "
                    "text takes long to split. This is said only once",
                    LONGEST_RUN,
                    LONGEST_RUN_OF_MARKS,
                )
            yield from ((start + begin, rules(piece[begin:end])) for begin, end in pairwise([0, *cuts, len(piece)]))
            start += len(piece)


@Tokenizer.register("ascii_spaces")
class AsciiSpacesTokenizer(Tokenizer):
    """Split a text at ASCII white space and nowhere else: tokens may contain no-break spaces. See `split_tokens`.

    Registered as a `Tokenizer` with name `ascii_spaces`.

    >>> AsciiSpacesTokenizer().tokenize("New\u00a0York is  big")
    [New\xa0York, is, big]
    """

    def tokenize(self, text: str) -> list[Token]:
        """Return the tokens of `text`."""
        return [Token(token) for token in split_tokens(text)]


@Tokenizer.register("just_tabs")
class JustTabsTokenizer(Tokenizer):
    """Split a text at tabs and nowhere else: tokens may contain spaces, and may be empty.

    ELMoForManyLangs reads its `plain` input in this way (`read_corpus` in its `__main__.py`), except that an empty text
    is one empty token there and no token here.

    Registered as a `Tokenizer` with name `just_tabs`.

    >>> JustTabsTokenizer().tokenize("New York\\tis\\tbig")
    [New York, is, big]
    """

    def tokenize(self, text: str) -> list[Token]:
        """Return the tokens of `text`."""
        return [Token(field) for field in text.split("\t")] if text else []


def as_tokens(words: Iterable[Union[str, Token]]) -> list[Token]:
    """Return words as tokens. Users pass strings to dataset readers, and AllenNLP's predictors pass tokens."""
    return [word if isinstance(word, Token) else Token(word) for word in words]


PIECE = 20_000
"""A longer part of a paragraph is split before its end is known; its last sentence is split again with what follows."""
LONGEST_UNCUT = 100_000
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
    ("", re.compile("[។།]"), "။"),  # sentencex knows the full stop of Burmese, and not those of Khmer and Tibetan
    ("el grc", re.compile("[;\u037e]"), "?"),
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
        masked = text
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
                if len(rest) > LONGEST_UNCUT:
                    cut = rest.rfind(" ", 0, LONGEST_UNCUT) + 1 or LONGEST_UNCUT
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
