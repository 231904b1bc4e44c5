"""The language of a text, guessed by py3langid, whose model of 4 MB comes with it."""

import re
from functools import cache
from importlib.util import find_spec
from locale import locale_alias
from typing import TYPE_CHECKING

from allennlp.common.checks import ConfigurationError

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier


def guess_language(text: str) -> tuple[str, float]:
    """Return the code of the language that a text is probably in, and how sure that is, up to 1.

    >>> guess_language("Es hat den ganzen Tag geregnet, und niemand kam.")[0]
    'de'
    """
    language, probability = _identifier().classify(text)
    return language, float(probability)


def check_language(language: str) -> None:
    """Raise `ConfigurationError` for a code that spaCy, py3langid and Python's list of locales do not know.

    sentencex takes any code, and would read a typing mistake as an unknown language.
    """
    locales = {locale.partition("_")[0] for locale in locale_alias if "_" in locale}
    is_code = re.fullmatch("[a-z]{2,3}", language)
    if not (
        is_code and (tokenizer_language(language) == language or language in {*locales, *_identifier().nb_classes})
    ):
        raise ConfigurationError(
            f"'language': expected the code of a language, such as 'de', or 'xx' for any, got {language!r}"
        )


def tokenizer_language(language: str) -> str:
    """Return the language whose tokenizer of spaCy reads a language: the same, or `xx` if spaCy has none for it."""
    return language if find_spec(f"spacy.lang.{language}") else "xx"


@cache
def _identifier() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
