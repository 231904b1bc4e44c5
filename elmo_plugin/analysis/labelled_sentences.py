"""Embed sentences with some labelled tokens, and collect the vectors of those tokens."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Optional

import numpy as np
from allennlp.common import Tqdm

from elmo_plugin.embedding import Embedder


class LabelledSentence(NamedTuple):
    """A tokenized sentence with one label, or `None`, per token."""

    tokens: list[str]
    labels: list[Optional[str]]


class Examples(NamedTuple):
    """The words, labels and vectors of N labelled tokens.

    *Shape:* words and labels (N,) · vectors (L, N, D).
    """

    words: np.ndarray
    labels: np.ndarray
    vectors: np.ndarray


def embed_examples(
    embedder: Embedder, sentences: Sequence[LabelledSentence], word_form: Callable[[str], str] = str
) -> Examples:
    """Return the labelled tokens of all sentences in order; `word_form` maps a token to its word.

    Memory holds the vectors of these tokens only: 4 · L · D bytes per token.
    """
    chosen = [[label is not None for label in sentence.labels] for sentence in sentences]
    ends = np.cumsum([sum(choice) for choice in chosen])
    num_layers, _, width = embedder.shape
    vectors = np.empty((num_layers, ends[-1], width), dtype=np.float32)  # (L, N, D)
    embedded = embedder.by_length([sentence.tokens for sentence in sentences])
    for index, array in Tqdm.tqdm(embedded, desc="embedding", unit=" sentences", total=len(sentences)):
        vectors[:, ends[index] - sum(chosen[index]) : ends[index]] = array[:, chosen[index]]
    tokens = [token for sentence in sentences for token in sentence.tokens]
    labels = [label for sentence in sentences for label in sentence.labels]
    words = [word_form(token) for token, label in zip(tokens, labels, strict=True) if label is not None]
    return Examples(np.array(words), np.array([label for label in labels if label is not None]), vectors)
