"""The language of a text, guessed by py3langid, whose model of 4 MB comes with it."""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import islice
from typing import Optional

import langcodes
from allennlp.common.checks import ConfigurationError
from py3langid.langid import MODEL_FILE, LanguageIdentifier

logger = logging.getLogger(__name__)

ANY = "xx"
"""spaCy's code of any language."""
PIECE, LONGEST_PIECE = 60, 200
"""The characters from which a language is guessed. Of 50 characters of English, French, Russian, Basque and Latin, no
guess that is `SURE` was wrong."""
SURE = 0.95
NOTABLE = 0.1
"""The share of a text from which on its language is said."""
ENOUGH = 2000
"""The characters of a text whose language is compared with that of a biLM."""
SAME = 20
"""Languages that are nearer, such as Bokmål and Danish, are not told apart; German and Dutch are at 24."""


def guess_language(text: str) -> tuple[str, float]:
    """Return the code of the language that a text is probably in, and how sure that is, up to 1.

    >>> guess_language("Es hat den ganzen Tag geregnet, und niemand kam.")[0]
    'de'
    """
    language, probability = _identifier().classify(text)
    return language, float(probability)


def pieces(lines: Iterable[str]) -> Iterator[str]:
    """Yield the text of lines in pieces that are long enough to guess their language."""
    piece = ""
    for line in lines:
        piece += f" {line.strip()}"
        if len(piece) >= PIECE:
            yield from (piece[start : start + LONGEST_PIECE] for start in range(0, len(piece), LONGEST_PIECE))
            piece = ""
    if piece:
        yield piece


def language_shares(pieces: Sequence[str], least: float = 0.0) -> dict[str, float]:
    """Return how much of a text is in which language, up to 1, the most first.

    A piece counts as much as it has characters and as its guess is sure, and not at all if that is less than `least`.
    """
    shares: dict[str, float] = {}
    for piece in pieces:
        language, certainty = guess_language(piece)
        if certainty >= least:
            shares[language] = shares.get(language, 0.0) + len(piece) * certainty
    size = sum(map(len, pieces))
    return {language: shares[language] / size for language in sorted(shares, key=shares.__getitem__, reverse=True)}


def say_shares(shares: Mapping[str, float]) -> str:
    """Return the languages of a text in words."""
    return " and ".join(f"{language} ({share:.0%})" for language, share in shares.items() if share >= NOTABLE)


class LanguageCheck:
    """Compares the language of the first texts that a biLM reads with its own, and logs a warning if it is another.

    # Parameters

    language : `Optional[str]`
        The language of the biLM; nothing is compared if it does not say.
    """

    def __init__(self, language: Optional[str]) -> None:
        self._language = None if language == ANY else language
        self._text = ""

    def read(self, texts: Iterable[str]) -> None:
        """Read some more texts. The first `ENOUGH` characters count."""
        if self._language is None:
            return
        self._text = "\n".join([self._text, *islice(texts, ENOUGH)])[:ENOUGH]
        if len(self._text) < PIECE:
            return
        shares = language_shares(list(pieces(self._text.splitlines())), SURE)
        others = {code for code in shares if langcodes.tag_distance(self._language, code) > SAME}
        is_other = sum(shares[code] for code in others) > 2 * NOTABLE
        if is_other:
            logger.warning(
                "the text looks like %s, and the biLM reads %s: vectors of another language mean nothing; choose a "
                "biLM that reads the text",
                say_shares(shares),
                self._language,
            )
        if is_other or len(self._text) == ENOUGH:
            self._language = None


def check_language(language: str) -> None:
    """Raise `ConfigurationError` for a code that neither spaCy, nor IANA's registry of BCP 47, nor py3langid has.

    sentencex takes any code, and would read a typing mistake as an unknown language.
    """
    if has_rules(language):
        return
    code = langcodes.standardize_tag(language).partition("-")[0] if langcodes.tag_is_valid(language) else ""
    # A guess has another code for Kikuyu.
    if not code or (code != language and language not in _identifier().nb_classes):
        hint = f"; the code of this language is {code!r}" * bool(code)
        raise ConfigurationError(
            f"'language': expected the code of a language, such as 'de', or 'xx' for any, got {language!r}{hint}"
        )


@cache
def has_rules(language: str) -> bool:
    """Return whether spaCy has rules for the tokens of a language."""
    return re.fullmatch("[a-z]{2,3}", language) is not None and find_spec(f"spacy.lang.{language}") is not None


@cache
def _identifier() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
