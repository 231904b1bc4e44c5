"""What users pass: the input of a predictor, raw text or tokens in JSON or in an instance, and lists of sentences."""

import json
from collections.abc import Iterable, Mapping, Set
from typing import Any, Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.common.util import JsonDict
from allennlp.data import DatasetReader, Instance, Token, Tokenizer
from allennlp.data.fields import TextField
from allennlp.models import Model
from allennlp.predictors import Predictor

from elmo_plugin.common import installed, parse_json
from elmo_plugin.text.languages import LanguageCheck
from elmo_plugin.text.tokenizer import as_tokens, without_lone_surrogates


class LineReader:
    """Read the lines of a predictor's input one after the other, count them for errors, and check their language.

    `language` is that of the biLM; see `LanguageCheck`.
    """

    def __init__(self, language: Optional[str] = None) -> None:
        self._count = 0
        self._check = LanguageCheck(language)

    def read(self, line: str) -> dict[str, Any]:
        """Return the JSON object on the next line. Raises `ConfigurationError` for any other line."""
        self._count += 1
        try:
            value = parse_json(line.removeprefix("\ufeff"))  # the byte order mark of a file
        except ValueError as error:
            example = json.dumps({"sentence": line.strip()[:60]}, ensure_ascii=False)
            raise ConfigurationError(  # `elmo-plugin predict` skips blank lines
                f"input line {self._count} (not counting blank lines): expected one JSON object per line, such as "
                f"{example}, got {line[:200]!r}: {error}"
            ) from error
        self._check.read(map(str, value.values()))
        return value


def read_question(question: Any) -> Union[str, list[str]]:
    """Return the text of `{"sentence": "…"}`, or the tokens of `{"tokens": [...]}` unchanged.

    Raises `ConfigurationError` if neither key is present with a value of its type.

    >>> read_question({"tokens": ["The", "boat"]})
    ['The', 'boat']
    """
    keys = question if isinstance(question, dict) else {}
    tokens, sentence = keys.get("tokens"), keys.get("sentence")
    if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
        return tokens
    if tokens is None and isinstance(sentence, str):
        return without_lone_surrogates(sentence)
    raise ConfigurationError(
        f"expected 'sentence' (a string) or 'tokens' (a list of strings), got {str(question)[:200]}"
    )


class TextPredictor(Predictor):
    """Answer `{"sentence": "raw text"}`, which a tokenizer splits, or `{"tokens": [...]}`, used unchanged.

    `language` is that of the biLM; see `LanguageCheck`.
    """

    def __init__(
        self, model: Model, dataset_reader: DatasetReader, tokenizer: Tokenizer, language: Optional[str]
    ) -> None:
        super().__init__(model, dataset_reader)
        self.tokenizer = tokenizer
        self._lines = LineReader(language)

    def load_line(self, line: str) -> JsonDict:
        """Parse a line of JSON. Raises `ConfigurationError` with the number of the line if it is not JSON."""
        return self._lines.read(line)

    def predict(self, sentence: str) -> JsonDict:
        """Answer raw text."""
        return self.predict_json({"sentence": sentence})

    def predict_instance(self, instance: Instance) -> JsonDict:
        """Answer one instance."""
        return self.predict_batch_instance([instance])[0]

    def _tokens(self, json_dict: JsonDict) -> list[Token]:
        """Return the tokens of an input. Raises `ConfigurationError` if it has neither text nor tokens."""
        question = read_question(json_dict)
        return self.tokenizer.tokenize(question) if isinstance(question, str) else as_tokens(question)

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        """Build the instance without the dataset reader, which may need more than a text for other models."""
        return Instance({"tokens": TextField(self._tokens(json_dict))})


def instance_words(instance: Instance) -> list[str]:
    """Return the tokens in the field `tokens` of an instance. Raises `ConfigurationError` if it has no such field."""
    field = instance.fields.get("tokens")
    if not isinstance(field, TextField):
        raise ConfigurationError(
            f"expected an instance with a text in its field 'tokens', got {[*instance.fields]}; "
            f"see {installed('docs/extend.md')}"
        )
    return [token.text or "" for token in field.tokens]


def token_lists(sentences: Any) -> list[list[str]]:
    """Return sentences as lists of tokens.

    Raises `ConfigurationError` that names the sentence if one is not a list of strings, such as an untokenized text.
    """
    if not isinstance(sentences, Iterable) or isinstance(sentences, str | bytes | Mapping):
        raise ConfigurationError(
            f"expected a list of tokenized sentences, such as [['Two', 'words'], ['One']], got {sentences!r:.100}"
        )
    lists = []
    for index, sentence in enumerate(sentences):
        expected = f"sentence {index}: expected a list of tokens, such as ['Two', 'words'], got"
        if not isinstance(sentence, Iterable) or isinstance(sentence, str | bytes | Mapping | Set):
            raise ConfigurationError(f"{expected} {sentence!r:.100}")
        tokens = list(sentence)
        for token in tokens:
            if not isinstance(token, str):
                raise ConfigurationError(f"{expected} {token!r:.100} ({type(token).__name__}) in it")
        lists.append(tokens)
    return lists
