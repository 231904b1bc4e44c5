"""Tokenizers: spaCy's rules without a trained pipeline, so that nothing is downloaded, and tabs."""

import spacy
from allennlp.common.checks import ConfigurationError
from allennlp.data.tokenizers import Token, Tokenizer

from elmo_plugin.text import without_lone_surrogates


@Tokenizer.register("spacy_blank")
class SpacyBlankTokenizer(Tokenizer):
    """Splits a text by the rules that spaCy has for its language. Whitespace is never a token.

    AllenNLP's own `spacy` loads, and downloads, a trained pipeline, of which tokenising uses only these rules.

    Registered as a `Tokenizer` with name `spacy_blank`.

    # Parameters

    language : `str`, optional (default = `"en"`)
        spaCy's code of the language, `xx` for any. Raises `ConfigurationError` for one that spaCy does not know, or
        whose rules need a library that is not installed.
    """

    def __init__(self, language: str = "en") -> None:
        try:
            # The tokenizer alone: the limit of a pipeline, a million characters, is made for parsers.
            self._split = spacy.blank(language).tokenizer
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(f"'language' is {language!r}; wanted one that spaCy can split: {error}") from error
        self._language = language

    def __reduce__(self) -> tuple[type, tuple[str]]:
        """Pickle the language only: the rules of some hold functions that do not pickle."""
        return type(self), (self._language,)

    def tokenize(self, text: str) -> list[Token]:
        """The tokens of `text`, each with its offsets there; half of a surrogate pair becomes U+FFFD."""
        return [
            Token(token.text, token.idx, token.idx + len(token.text))
            for token in self._split(without_lone_surrogates(text))
            if not token.is_space
        ]


@Tokenizer.register("just_tabs")
class JustTabsTokenizer(Tokenizer):
    """Splits a text at tabs and nowhere else: tokens may hold spaces, and may be empty.

    ELMoForManyLangs reads its `plain` input in this way (`read_corpus` in its `__main__.py`), except that it reads a
    text without characters as one empty token; here such a text has no tokens.

    Registered as a `Tokenizer` with name `just_tabs`.

    >>> JustTabsTokenizer().tokenize("New York\\tis\\tbig")
    [New York, is, big]
    """

    def tokenize(self, text: str) -> list[Token]:
        """Return the tokens of `text`."""
        return [Token(field) for field in text.split("\t")] if text else []
