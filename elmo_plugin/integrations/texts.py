"""Columns of texts as sentences: what every integration does with the rows that users have."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cache
from typing import Optional, Union

import numpy as np
from allennlp.common.checks import ConfigurationError

from elmo_plugin.embedding import maximum, mean
from elmo_plugin.text import SpacyBlankTokenizer

Texts = Sequence[Union[str, Sequence[str]]]
Tokenize = Callable[[str], Sequence[str]]

POOLINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"mean": mean, "max": maximum}
"""The functions that pool the vectors of a text's tokens into one."""


def pooling_named(pooling: str) -> Callable[[np.ndarray], np.ndarray]:
    """Return one of `POOLINGS`. Raises `ConfigurationError` for another name."""
    if pooling not in POOLINGS:
        raise ConfigurationError(f"'pooling': expected one of {', '.join(POOLINGS)}, got {pooling!r}")
    return POOLINGS[pooling]


def tokenized(texts: Iterable[object], tokenizer: Optional[Tokenize] = None) -> list[Sequence[str]]:
    """Return the tokens of each row: a text is split by the tokenizer, or by spaCy's rules; a list of tokens is taken.

    Raises `ConfigurationError` that names the row if one is neither, and for texts that are no rows, such as one text.
    """
    if isinstance(texts, str | bytes | Mapping | Set) or not isinstance(texts, Iterable):
        raise ConfigurationError(f"expected a list of texts or of lists of tokens, got {texts!r:.100}")
    tokenize = tokenizer or (lambda text: [token.ensure_text() for token in _spacys_rules().tokenize(text)])
    sentences: list[Sequence[str]] = []
    for index, row in enumerate(texts):
        if isinstance(row, str):
            sentences.append(tokenize(str(row)))  # spaCy needs a plain `str` instead of NumPy's
        elif isinstance(row, Sequence | np.ndarray):
            sentences.append(list(row))
        else:
            raise ConfigurationError(f"row {index}: expected a text or a list of tokens, got {row!r}")
    return sentences


@cache
def _spacys_rules() -> SpacyBlankTokenizer:
    return SpacyBlankTokenizer()
