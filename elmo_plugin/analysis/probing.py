"""Measure how well each layer alone predicts tags and word senses (ELMo §5.3, Tables 5 and 6)."""

from collections import Counter, defaultdict
from collections.abc import Callable
from os import fspath
from typing import NamedTuple

import numpy as np
import torch
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError
from torch import Tensor, nn

from elmo_plugin.analysis.labelled_sentences import Examples, LabelledSentence, embed_examples
from elmo_plugin.bilm import BiLM
from elmo_plugin.elmo import ConcatenateMix, Elmo
from elmo_plugin.embedding import Embedder
from elmo_plugin.models import ColumnTagsReader, Location

NO_SENSE = "O"
"""The entry in a column of senses for a token without a sense."""
C = 0.1
"""The inverse of the strength of the L2 penalty, as in scikit-learn."""
MAX_PASSES = 100
"""The limit on passes over the data. After 75 passes, accuracies change by less than 0.1 percent."""

Classifier = Callable[[Examples, Examples, int], np.ndarray]
"""A function of training examples, evaluation examples and a layer that predicts the labels (N,) of the latter."""


class Task(NamedTuple):
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


def tagging_task(train: Location, dev: Location, reader: ColumnTagsReader) -> Task:
    """Return the task of predicting tags with a linear classifier (Table 6)."""
    return Task(_read(train, reader), _read(dev, reader), linear, str)


def sense_task(train: Location, dev: Location, reader: ColumnTagsReader) -> Task:
    """Return the task of predicting senses by the nearest average (Table 5). The tag of a token is its sense, or `O`.

    Raises `ConfigurationError` if a file contains no sense.
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
    """Return an embedder with random weights as a control: it shows what architecture and spelling alone achieve.

    It returns all layers, and its sentences start from zeros, because a warm state belongs to trained weights.
    """
    sizes = embedder.elmo.bilm.options
    mix = ConcatenateMix(sizes.num_layers, sizes.layer_dim)
    bilm = BiLM.random(sizes, seed).requires_grad_(False).set_precision(embedder.elmo.bilm.precision)
    elmo = Elmo.from_parts(bilm, [mix], dropout=0.0)
    return Embedder(elmo.to(embedder.device), embedder.word_id)


def most_frequent(train: Examples, dev: Examples) -> np.ndarray:
    """Predict the most frequent label (N,) of each word, or of all words for an unknown one: the baseline."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for word, label in zip(train.words, train.labels, strict=True):
        counts[word][label] += 1
    overall = Counter(train.labels)
    predicted = [counts.get(word, overall).most_common(1)[0][0] for word in dev.words]
    return np.array(predicted, dtype=train.labels.dtype)  # wide enough for the longest label of training


def linear(train: Examples, dev: Examples, layer: int) -> np.ndarray:
    """Predict labels (N,) by logistic regression over a layer's features, scaled to unit deviation in training.

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
    """Return a map (D, R) from features (N, D) to uncorrelated ones of about unit deviation; constants drop out."""
    covariance = (numbers.T @ numbers).double() / len(numbers)  # (D, D)
    variances, directions = torch.linalg.eigh(covariance)  # (D,), (D, D)
    kept = variances > 1e-6 * variances.max()  # the token layer, for one, has each feature twice
    return (directions[:, kept] * (variances[kept] + 0.01).rsqrt()).float()


def nearest_sense(train: Examples, dev: Examples, layer: int) -> np.ndarray:
    """Predict the sense (N,) whose average over training is nearest by cosine (ELMo §5.3; Melamud et al. 2016).

    A word that training lacks gets the baseline's prediction; in the paper it gets the first sense of WordNet.
    """
    predicted = most_frequent(train, dev)
    train_positions, dev_positions = _positions(train.words), _positions(dev.words)
    common = train_positions.keys() & dev_positions.keys()
    for word in Tqdm.tqdm(common, desc=f"averaging, layer {layer}", unit=" words"):
        known, asked = train_positions[word], dev_positions[word]
        senses, which = np.unique(train.labels[known], return_inverse=True)  # (S,), (N of the word,)
        members = np.eye(len(senses), dtype=np.float32)[which].T  # (S, N of the word)
        sums = members @ train.vectors[layer, known]  # (S, D), in the direction of the averages
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
