"""Tokenised sentences as users pass them, and as lists."""

from collections.abc import Iterable, Mapping, Set
from typing import Any

from allennlp.common.checks import ConfigurationError


def token_lists(sentences: Any) -> list[list[str]]:
    """Return sentences as lists of tokens.

    Raises `ConfigurationError` that names the sentence if one is not a list of strings, such as an untokenised text.
    """
    if isinstance(sentences, str | bytes | Mapping) or not isinstance(sentences, Iterable):
        raise ConfigurationError(
            f"expected a list of tokenised sentences, such as [['Two', 'words'], ['One']], got {_shortened(sentences)}"
        )
    lists = []
    for index, sentence in enumerate(sentences):
        is_list = isinstance(sentence, Iterable) and not isinstance(sentence, str | bytes | Mapping | Set)
        tokens = list(sentence) if is_list else [sentence]
        wrong = [token for token in tokens if not isinstance(token, str)] if is_list else [sentence]
        if wrong:
            raise ConfigurationError(
                f"sentence {index}: expected a list of tokens, such as ['Two', 'words'], got {_shortened(wrong[0])}"
                + " among them" * is_list
            )
        lists.append(tokens)
    return lists


def _shortened(value: object) -> str:
    return f"the string {value[:100]!r}" if isinstance(value, str) else repr(value)[:100]
