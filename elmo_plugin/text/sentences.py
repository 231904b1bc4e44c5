"""Tokenized sentences as users pass them: checked, as lists of tokens, and as padded ids."""

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor


def token_lists(sentences: Any) -> list[list[str]]:
    """Return sentences as lists of tokens.

    Raises `ConfigurationError` that names the sentence if one is not a list of strings, such as an untokenized text.
    """
    if not isinstance(sentences, Iterable) or isinstance(sentences, str | bytes | Mapping):
        raise ConfigurationError(
            f"expected a list of tokenized sentences, such as [['Two', 'words'], ['One']], got {_shortened(sentences)}"
        )
    lists = []
    for index, sentence in enumerate(sentences):
        expected = f"sentence {index}: expected a list of tokens, such as ['Two', 'words'], got"
        if not isinstance(sentence, Iterable) or isinstance(sentence, str | bytes | Mapping | Set):
            raise ConfigurationError(f"{expected} {_shortened(sentence)}")
        tokens = list(sentence)
        for token in tokens:
            if not isinstance(token, str):
                raise ConfigurationError(f"{expected} {_shortened(token)} ({type(token).__name__}) in it")
        lists.append(tokens)
    return lists


def padded_ids(sentences: Any, word_to_ids: Callable[[str], list[int]], width: int) -> Tensor:
    """Return the ids of each word of tokenized sentences, (B, T, width), padded with 0 to the longest sentence."""
    lists = token_lists(sentences)
    lengths = np.array([len(words) for words in lists], dtype=np.int64)  # (B,)
    numbers: dict[str, int] = {}  # of the distinct words
    tokens = [numbers.setdefault(word, len(numbers)) for words in lists for word in words]
    ids = np.zeros((len(lists), lengths.max(initial=0), width), dtype=np.int64)  # (B, T, width)
    if tokens:
        ids[np.arange(ids.shape[1]) < lengths[:, None]] = np.array([word_to_ids(word) for word in numbers])[tokens]
    return torch.from_numpy(ids)


def _shortened(value: object) -> str:
    return f"the string {value[:100]!r}" if isinstance(value, str) else repr(value)[:100]
