"""Sentences of which some tokens have a label, and the vectors of those tokens."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Optional

import numpy as np
from allennlp.common import Tqdm

from elmo_plugin.embedding import Embedder


class LabelledSentence(NamedTuple):
    """The tokens of a sentence, and a label or `None` for each."""

    tokens: list[str]
    labels: list[Optional[str]]


class Examples(NamedTuple):
    """N tokens with a label.

    *Shape:* words and labels (N,) · vectors (L, N, D).
    """

    words: np.ndarray
    labels: np.ndarray
    vectors: np.ndarray


def embed_examples(
    embedder: Embedder, sentences: Sequence[LabelledSentence], word_form: Callable[[str], str] = str
) -> Examples:
    """The labelled tokens of all sentences in their order; `word_form` of a token is its word.

    Their vectors are held in memory, 4 · L · D bytes a token; the others' are not.
    """
    chosen = [[label is not None for label in sentence.labels] for sentence in sentences]
    ends = np.cumsum([sum(choice) for choice in chosen])
    num_layers, _, width = embedder.shape
    vectors = np.empty((num_layers, ends[-1], width), dtype=np.float32)  # (L, N, D)
    embedded = embedder.by_length([sentence.tokens for sentence in sentences])
    for place, array in Tqdm.tqdm(embedded, desc="embedding", unit=" sentences", total=len(sentences)):
        vectors[:, ends[place] - sum(chosen[place]) : ends[place]] = array[:, chosen[place]]
    labelled = [(token, label) for sentence in sentences for token, label in zip(*sentence, strict=True)]
    words = [word_form(token) for token, label in labelled if label is not None]
    labels = [label for _, label in labelled if label is not None]
    return Examples(np.array(words), np.array(labels), vectors)
