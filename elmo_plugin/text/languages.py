"""The language of a text, guessed by py3langid, whose model of 4 MB comes with it."""

import logging
import re
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import langcodes
from allennlp.common.checks import ConfigurationError
from langcodes import LanguageTagError

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier


logger = logging.getLogger(__name__)

ANY = "xx"
"""spaCy's code of any language."""


def guess_language(text: str) -> tuple[str, float]:
    """Return the code of the language that a text is probably in, and how sure that is, up to 1.

    >>> guess_language("Es hat den ganzen Tag geregnet, und niemand kam.")[0]
    'de'
    """
    language, probability = _identifier().classify(text)
    return language, float(probability)


def check_language(language: str) -> None:
    """Raise `ConfigurationError` for a code that neither spaCy, nor IANA's registry of BCP 47, nor py3langid has.

    sentencex takes any code, and would read a typing mistake as an unknown language.
    """
    if _has_rules(language):
        return
    code = ""
    with suppress(LanguageTagError):
        code = langcodes.standardize_tag(language).partition("-")[0]
    exists = bool(code) and langcodes.tag_is_valid(code)
    if exists and (code == language or language in _identifier().nb_classes):  # a guess has another code for Kikuyu
        return
    hint = f"; the code of this language is {code!r}" * exists
    raise ConfigurationError(
        f"'language': expected the code of a language, such as 'de', or 'xx' for any, got {language!r}{hint}"
    )


def language_with_rules(language: str) -> str:
    """Return the language whose rules of spaCy split the tokens of a language: the same, or `xx` if spaCy has none.

    The latter is logged once for each language.
    """
    check_language(language)
    if _has_rules(language):
        return language
    _say_without_rules(language)
    return ANY


@cache
def _has_rules(language: str) -> bool:
    return re.fullmatch("[a-z]{2,3}", language) is not None and find_spec(f"spacy.lang.{language}") is not None


@cache
def _say_without_rules(language: str) -> None:
    logger.warning(
        "language %r: spaCy has no rules for its tokens, so those for any language (xx) split them", language
    )


@cache
def _identifier() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
