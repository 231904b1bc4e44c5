"""The codes of languages: which exist, and whose rules split the tokens of one that spaCy lacks."""

import logging
from pkgutil import iter_modules

import pytest
import spacy.lang
from allennlp.common.checks import ConfigurationError
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from elmo_plugin.text import SentenceSplitter, SpacyBlankTokenizer
from elmo_plugin.text.languages import check_language


@pytest.mark.parametrize("language", ["gsw", "cu", "lzh", "frr"])
def test_a_language_without_rules_in_spacy_is_split_by_those_for_any_and_named(
    language: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert SentenceSplitter(language).split("Der Bund. Die Zeit.") == ["Der Bund. ", "Die Zeit."]
    assert [token.text for token in SpacyBlankTokenizer(language).tokenize("Der Bund.")] == ["Der", "Bund", "."]
    SpacyBlankTokenizer(language)
    named = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(named) == 1 and f"language '{language}': spaCy has no rules" in named[0]


@pytest.mark.parametrize("language", ["de", "la", "grc", "xx"])
def test_a_language_with_rules_is_its_own(language: str, caplog: pytest.LogCaptureFixture) -> None:
    assert SpacyBlankTokenizer(language)._language == language
    assert not caplog.records


def test_every_language_of_spacy_and_of_the_guesses_has_a_code_that_is_accepted() -> None:
    """Among them `tl`, for which the standard code is `fil`."""
    spacys = {module.name for module in iter_modules(spacy.lang.__path__) if module.ispkg}
    guessed = {str(language) for language in LanguageIdentifier.from_model_file(MODEL_FILE).nb_classes}
    assert {"tl", "la"} <= spacys and {"tl", "de"} <= guessed
    for language in spacys | guessed:
        check_language(language)


@pytest.mark.parametrize(
    ("language", "hint"),
    [("deu", "'de'"), ("lat", "'la'"), ("en-GB", "'en'"), ("DE", "'de'"), ("qq", ""), ("German", ""), ("../x", "")],
)
def test_a_code_that_no_language_has_is_an_error(language: str, hint: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        SpacyBlankTokenizer(language)
    message = raised.value.message.partition(f", got {language!r}")
    assert message[0] == "'language': expected the code of a language, such as 'de', or 'xx' for any"
    assert message[2] == (hint and f"; the code of this language is {hint}")
