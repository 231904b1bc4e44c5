"""Tokenizers: one by spaCy's rules, without a trained pipeline to download, and two of tokenized text."""

import logging
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data.tokenizers import Token, Tokenizer

from elmo_plugin.text.languages import ANY, language_with_rules
from elmo_plugin.text.predictor_input import without_lone_surrogates
from elmo_plugin.text.white_space import split_tokens

if TYPE_CHECKING:
    from spacy.language import Language

logger = logging.getLogger(__name__)
LONGEST_RUN, LONGEST_RUN_OF_MARKS = 96, 32
"""Longer runs of characters without white space, and of marks alone, are cut, whatever the language: spaCy takes one
prefix or suffix after the other from the ends of a run, and each time searches the rest of it for the next."""
IDEOGRAPH = r"(?:[\u2e80-\u303f\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]|(?!\w)[\uff00-\uffef])"
IDEOGRAPHS = re.compile(f"({IDEOGRAPH})")
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
def _pipeline(language: str) -> "Language":
    """Return spaCy's rules for a language, which all tokenizers share: to load those for English takes 0.3 s."""
    import spacy  # takes half as long as PyTorch

    pipeline = spacy.blank(language)
    if language == "zh":  # spaCy's own tokenizer splits `Google` and `2024` into characters, too
        rules = spacy.blank(ANY)
        pipeline.tokenizer, pipeline.vocab = rules.tokenizer, rules.vocab
    if isinstance(pipeline.tokenizer, spacy.tokenizer.Tokenizer):
        pipeline.tokenizer.max_cache_size = MOST_STRINGS
    return pipeline


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
        self._language = language_with_rules(language)
        try:
            self._load_rules()
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(
                f"'language': expected a language that spaCy can tokenize, got {language!r}: {error}"
            ) from error

    def __reduce__(self) -> tuple[type, tuple[str]]:
        """Pickle only the language code, because the rules of some languages hold functions that do not pickle."""
        return type(self), (self._language,)

    def tokenize(self, text: str) -> list[Token]:
        """Return the tokens of `text` with their offsets. A lone surrogate becomes U+FFFD.

        No token of a language with rules is longer than `LONGEST_RUN` characters.
        """
        return [
            Token(token.text, start + token.idx, start + token.idx + len(token.text))
            for start, part in self._parts(text)
            for token in self._split(part)
            if not token.is_space
        ]

    def words(self, text: str) -> list[str]:
        """Return the tokens of `text` as strings without white space, which some languages' exceptions contain."""
        return [word for _, part in self._parts(text) for token in self._split(part) for word in token.text.split()]

    def _parts(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield where each part begins that spaCy gets at once, and the part."""
        if len(self._strings) > MOST_STRINGS:
            if self._split is _pipeline(self._language).tokenizer:  # no other tokenizer has loaded them again
                _pipeline.cache_clear()
            self._load_rules()
        text = without_lone_surrogates(text).replace("\u200b", " ")  # which separates words, as in Khmer
        start = 0
        for piece in (IDEOGRAPHS if self._language == "zh" else OTHER_MARKS).split(text):
            cuts = sorted({found.end() for pattern in self._cuts for found in pattern.finditer(piece)})
            if cuts:
                logger.warning_once(  # type: ignore[attr-defined]
                    "a text has more than %d characters, or %d marks, without white space: it is cut there, so that no "
                    "text takes long to split. This is said only once",
                    LONGEST_RUN,
                    LONGEST_RUN_OF_MARKS,
                )
            yield from ((start + begin, piece[begin:end]) for begin, end in pairwise([0, *cuts, len(piece)]))
            start += len(piece)

    def _load_rules(self) -> None:
        import spacy

        # The pipeline itself rejects texts of more than a million characters, a limit meant for parsers.
        pipeline = _pipeline(self._language)
        self._split, self._strings = pipeline.tokenizer, pipeline.vocab.strings
        has_rules = isinstance(self._split, spacy.tokenizer.Tokenizer)  # Japanese, for example, has none
        self._cuts = PARTS_OF_A_RUN if has_rules else []
        self.stop_words: set[str] = pipeline.Defaults.stop_words  # small letters; they say little by themselves


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
