"""Measure how well each layer alone predicts tags and word senses (ELMo §5.3, Tables 5 and 6)."""

from collections import Counter, defaultdict
from collections.abc import Callable
from copy import deepcopy
from os import fspath
from typing import NamedTuple

import numpy as np
import torch
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError
from torch import Tensor, nn

from elmo_plugin.analysis.labelled_sentences import Examples, LabelledSentence, embed_examples
from elmo_plugin.bilm import BiLM
from elmo_plugin.embedding import Embedder
from elmo_plugin.models import ColumnTagsReader, Location

NO_SENSE = "O"
"""The entry in a column of senses for a token without one."""
C = 0.1
"""The inverse strength of the L2 penalty, as in scikit-learn."""
MAX_PASSES = 100
"""The limit on passes over the data. Scores move by less than 0.1 percent after 75 passes."""

Classifier = Callable[[Examples, Examples, int], np.ndarray]
"""A function of training examples, other examples and a layer, which predicts the labels (N,) of the latter."""


class Task(NamedTuple):
    """A probing task: learn on `train`, count on `dev`. `word_form` maps a token to its word."""

    train: list[LabelledSentence]
    dev: list[LabelledSentence]
    classifier: Classifier
    word_form: Callable[[str], str]


class Accuracies(NamedTuple):
    """The percentage of correct `dev` labels, by the words alone and by each layer; and the numbers of labels."""

    most_frequent: float
    layers: list[float]
    train: int
    dev: int


def tagging_task(train: Location, dev: Location, reader: ColumnTagsReader) -> Task:
    """Return the task to predict tags by a linear classifier (Table 6)."""
    return Task(_read(train, reader), _read(dev, reader), linear, str)


def sense_task(train: Location, dev: Location, reader: ColumnTagsReader) -> Task:
    """Return the task to predict senses by the nearest average (Table 5); the tag of a token is its sense, or `O`.

    Raises `ConfigurationError` if a file holds no sense.
    """
    return Task(_read(train, reader, NO_SENSE), _read(dev, reader, NO_SENSE), nearest_sense, str.lower)


def probe(embedder: Embedder, task: Task) -> Accuracies:
    """Train and evaluate each layer by itself. Raises `ConfigurationError` unless the embedder returns all layers."""
    if len(embedder.shape) != 3:
        raise ConfigurationError("the embedder returns one mix of the layers: load it with the mix 'all'")
    train = embed_examples(embedder, task.train, task.word_form)
    dev = embed_examples(embedder, task.dev, task.word_form)
    layers = [task.classifier(train, dev, layer) for layer in range(embedder.shape[0])]
    baseline, *by_layer = [
        100 * float(np.mean(predicted == dev.labels)) for predicted in [most_frequent(train, dev), *layers]
    ]
    return Accuracies(baseline, by_layer, len(train.labels), len(dev.labels))


def random_twin(embedder: Embedder, seed: int) -> Embedder:
    """Return a copy with random weights, as a control: what the architecture and the spelling alone give."""
    twin = deepcopy(embedder)
    bilm = twin.elmo.bilm
    # Not strict: a warm state in the files has no random counterpart. It stays, and sentences start from zeros.
    bilm.load_state_dict(BiLM.random(bilm.options, seed).state_dict(), strict=False)
    return twin


def most_frequent(train: Examples, dev: Examples) -> np.ndarray:
    """Predict each word's most frequent label, (N,), and for unknown words the most frequent of all: the baseline."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for word, label in zip(train.words, train.labels, strict=True):
        counts[word][label] += 1
    overall = Counter(train.labels)
    predicted = [counts.get(word, overall).most_common(1)[0][0] for word in dev.words]
    return np.array(predicted, dtype=train.labels.dtype)  # as wide as the longest label of training


def linear(train: Examples, dev: Examples, layer: int) -> np.ndarray:
    """Predict labels (N,) by logistic regression over a layer's features, scaled to a deviation of 1 in training.

    The loss is that of scikit-learn's `LogisticRegression(C=0.1)`. Whitening the features lets L-BFGS reach the minimum
    in a third of the passes over the data.
    """
    names, which = np.unique(train.labels, return_inverse=True)
    targets, numbers = torch.from_numpy(which), torch.from_numpy(train.vectors[layer])  # (N,), (N, D)
    mean, deviation = numbers.mean(dim=0), numbers.std(dim=0, correction=0).clamp(min=1e-6)  # (D,) each
    scaled = (numbers - mean) / deviation  # (N, D)
    whiten = _whitening(scaled)  # (D, R)
    inputs = scaled @ whiten  # (N, R)
    weights = torch.zeros(len(names), inputs.size(1), requires_grad=True)  # (labels, R)
    biases = torch.zeros(len(names), requires_grad=True)

    def logits(vectors: Tensor) -> Tensor:
        return nn.functional.linear(vectors, weights, biases)  # (N, labels)

    # The columns of `whiten` are orthogonal, so the penalty on the weights over `scaled` is a sum over columns.
    penalty = whiten.square().sum(dim=0) / (2 * C * len(inputs))  # (R,)
    optimizer = torch.optim.LBFGS(
        [weights, biases], max_iter=MAX_PASSES, max_eval=MAX_PASSES, tolerance_grad=1e-5, line_search_fn="strong_wolfe"
    )
    with Tqdm.tqdm(total=MAX_PASSES, desc=f"training, layer {layer}", unit=" passes") as progress:

        def loss() -> Tensor:
            optimizer.zero_grad()
            value = nn.functional.cross_entropy(logits(inputs), targets) + (weights.square() @ penalty).sum()
            value.backward()
            progress.update()
            return value

        optimizer.step(loss)
    asked = (torch.from_numpy(dev.vectors[layer]) - mean) / deviation @ whiten  # (N of dev, R)
    with torch.no_grad():
        predicted: np.ndarray = names[logits(asked).argmax(dim=-1).numpy()]  # (N of dev,)
    return predicted


def _whitening(numbers: Tensor) -> Tensor:
    """Return a map (D, R) of features (N, D) to uncorrelated ones with about the same deviation; constants drop out."""
    covariance = (numbers.T @ numbers).double() / len(numbers)  # (D, D)
    variances, directions = torch.linalg.eigh(covariance)  # (D,), (D, D)
    kept = variances > 1e-6 * variances.max()  # the token layer, for example, holds each number twice
    return (directions[:, kept] * (variances[kept] + 0.01).rsqrt()).float()


def nearest_sense(train: Examples, dev: Examples, layer: int) -> np.ndarray:
    """Predict the sense (N,) whose average over training is nearest by cosine (ELMo §5.3; Melamud et al. 2016).

    A word that training lacks gets the baseline's prediction; the paper takes the first sense of WordNet.
    """
    predicted = most_frequent(train, dev)
    train_positions, dev_positions = _positions(train.words), _positions(dev.words)
    common = train_positions.keys() & dev_positions.keys()
    for word in Tqdm.tqdm(common, desc=f"averaging, layer {layer}", unit=" words"):
        known, asked = train_positions[word], dev_positions[word]
        senses, which = np.unique(train.labels[known], return_inverse=True)  # (S,), (N of the word,)
        members = np.eye(len(senses), dtype=np.float32)[which].T  # (S, N of the word)
        sums = members @ train.vectors[layer, known]  # (S, D), of the averages' direction
        sums /= np.linalg.norm(sums, axis=1, keepdims=True)
        predicted[asked] = senses[(dev.vectors[layer, asked] @ sums.T).argmax(axis=1)]
    return predicted


def _positions(words: np.ndarray) -> dict[str, list[int]]:
    """Map each word to its positions."""
    positions = defaultdict(list)
    for position, word in enumerate(words.tolist()):
        positions[word].append(position)
    return positions


def _read(path: Location, reader: ColumnTagsReader, none: str = "") -> list[LabelledSentence]:
    """Read the sentences of a file of columns; tokens with the label `none` have no label."""
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
