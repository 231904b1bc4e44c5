"""The language of a text, guessed by py3langid, whose model of 4 MB comes with it."""

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier


def guess_language(text: str) -> tuple[str, float]:
    """Return the code of the language that a text is probably in, and how sure that is, up to 1.

    >>> guess_language("Es hat den ganzen Tag geregnet, und niemand kam.")[0]
    'de'
    """
    language, probability = _identifier().classify(text)
    return language, float(probability)


def tokenizer_language(language: str) -> str:
    """Return the language whose tokenizer of spaCy reads a language: the same, or `xx` if spaCy has none for it."""
    return language if find_spec(f"spacy.lang.{language}") else "xx"


@cache
def _identifier() -> "LanguageIdentifier":
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
