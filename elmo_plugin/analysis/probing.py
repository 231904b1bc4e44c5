"""Measure how well each layer alone predicts tags and word senses (ELMo §5.3, Tables 5 and 6)."""

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from os import fspath
from typing import NamedTuple, Optional

import numpy as np
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError
from more_itertools import map_reduce

from elmo_plugin.bilm import BiLM
from elmo_plugin.elmo import Elmo
from elmo_plugin.embedding import Embedder
from elmo_plugin.models import ColumnTagsReader, FilePath

NO_SENSE = "O"
"""The entry in a column of senses for a token without a sense."""


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


Classifier = Callable[[Examples, Examples, int], np.ndarray]
"""A function of training examples, evaluation examples and a layer that predicts the labels (N,) of the latter."""


class ProbingTask(NamedTuple):
    """A probing task: train on `train`, evaluate on `dev`. `word_form` maps a token to its word."""

    train: list[LabelledSentence]
    dev: list[LabelledSentence]
    classifier: Classifier
    word_form: Callable[[str], str]


class Accuracies(NamedTuple):
    """The percentage of correct `dev` labels from the word alone and from each layer, and the numbers of labels."""

    most_frequent: float
    layers: list[float]
    train: int
    dev: int


def tagging_task(train: FilePath, dev: FilePath, reader: ColumnTagsReader) -> ProbingTask:
    """Return the task of predicting tags with a linear classifier (Table 6).

    Raises `ConfigurationError` if the training file has only one tag.
    """
    task = ProbingTask(_read(train, reader), _read(dev, reader), linear, str)
    tags = {tag for sentence in task.train for tag in sentence.labels}
    if len(tags) < 2:
        raise ConfigurationError(f"{fspath(train)}: expected two tags or more, got only {tags}")
    return task


def sense_task(train: FilePath, dev: FilePath, reader: ColumnTagsReader) -> ProbingTask:
    """Return the task of predicting senses by the nearest average (Table 5). The tag of a token is its sense, or `O`.

    Raises `ConfigurationError` if a file contains no sense.
    """
    return ProbingTask(read_senses(train, reader), read_senses(dev, reader), nearest_sense, str.lower)


def read_senses(path: FilePath, reader: ColumnTagsReader) -> list[LabelledSentence]:
    """Read a file of columns in which the tag of a token is its sense, or `O`.

    Raises `ConfigurationError` if it contains no sense.
    """
    return _read(path, reader, NO_SENSE)


def probe(embedder: Embedder, task: ProbingTask) -> Accuracies:
    """Train and evaluate each layer by itself. Raises `ConfigurationError` unless the embedder returns all layers."""
    if len(embedder.shape) != 3:
        raise ConfigurationError("the embedder returns one mix of the layers: load it with the mix 'all'")
    train = embed_examples(embedder, task.train, task.word_form)
    dev = embed_examples(embedder, task.dev, task.word_form)
    predictions = [most_frequent(train, dev)]
    for layer in Tqdm.tqdm(range(embedder.shape[0]), desc="training", unit=" layers"):
        predictions.append(task.classifier(train, dev, layer))
    baseline, *layers = [100 * float(np.mean(predicted == dev.labels)) for predicted in predictions]
    return Accuracies(baseline, layers, len(train.labels), len(dev.labels))


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


def random_twin(embedder: Embedder, seed: int) -> Embedder:
    """Return an embedder with random weights as a control: it shows what architecture and spelling alone achieve.

    It returns all layers, and its sentences start from zeros, because a warm state belongs to trained weights.
    """
    sizes = embedder.elmo.bilm.options
    bilm = BiLM.random(sizes, seed).requires_grad_(False).set_precision(embedder.elmo.bilm.precision)
    elmo = Elmo.from_parts(bilm, [], dropout=0.0)
    return Embedder(elmo.to(embedder.device), embedder.word_id)


def most_frequent(train: Examples, dev: Examples) -> np.ndarray:
    """Predict the most frequent label (N,) of each word, or of all words for an unknown one: the baseline."""
    counts = map_reduce(range(len(train.words)), train.words.__getitem__, train.labels.__getitem__, Counter)
    overall = Counter(train.labels)
    predicted = [counts.get(word, overall).most_common(1)[0][0] for word in dev.words]
    return np.array(predicted, dtype=train.labels.dtype)  # wide enough for the longest label of training


def linear(train: Examples, dev: Examples, layer: int) -> np.ndarray:
    """Predict labels (N,) by logistic regression over a layer's features, scaled to unit deviation in training."""
    from sklearn.exceptions import ConvergenceWarning  # takes half as long as PyTorch
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=100))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # after 75 iterations, accuracies change by less than 0.1 %
        model.fit(train.vectors[layer], train.labels)
    predicted: np.ndarray = model.predict(dev.vectors[layer])  # (N of dev,)
    return predicted


def nearest_sense(train: Examples, dev: Examples, layer: int) -> np.ndarray:
    """Predict the sense (N,) whose average over training is nearest by cosine (ELMo §5.3; Melamud et al. 2016).

    A word that training lacks gets the baseline's prediction; in the paper it gets the first sense of WordNet.
    """
    predicted = most_frequent(train, dev)
    train_positions, dev_positions = _positions(train.words), _positions(dev.words)
    common = train_positions.keys() & dev_positions.keys()
    for word in common:
        known, asked = train_positions[word], dev_positions[word]
        senses, which = np.unique(train.labels[known], return_inverse=True)  # (S,), (N of the word,)
        members = np.eye(len(senses), dtype=np.float32)[which].T  # (S, N of the word)
        sums = members @ train.vectors[layer, known]  # (S, D), in the direction of the averages
        sums /= np.linalg.norm(sums, axis=1, keepdims=True)
        predicted[asked] = senses[(dev.vectors[layer, asked] @ sums.T).argmax(axis=1)]
    return predicted


def _positions(words: np.ndarray) -> dict[str, list[int]]:
    """Map each word to its positions."""
    return map_reduce(range(len(words)), words.tolist().__getitem__)


def _read(path: FilePath, reader: ColumnTagsReader, none: str = "") -> list[LabelledSentence]:
    """Read the sentences of a file of columns. Tokens with the label `none` get no label."""
    sentences = [
        LabelledSentence(
            instance["metadata"]["words"],  # type: ignore[index]
            [None if label == none else label for label in instance["tags"].labels],  # type: ignore[attr-defined]
        )
        for instance in reader.read(path)
    ]
    if not any(label is not None for sentence in sentences for label in sentence.labels):
        raise ConfigurationError(f"{fspath(path)}: expected labels other than {none!r}, got none")
    return sentences
