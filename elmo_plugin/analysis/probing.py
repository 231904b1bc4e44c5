"""How much of the tags and of the senses of words each layer alone can tell (ELMo §5.3, Tables 5 and 6)."""

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
"""What stands in a column of senses where a token has none."""
C = 0.1
"""The weight of the data against the L2 penalty, as scikit-learn has it."""
MAX_PASSES = 100
"""How often a classifier may go over the data. Scores move by less than 0.1 per cent after 75 passes."""

Classifier = Callable[[Examples, Examples, int], np.ndarray]
"""What training examples say of the others by one layer: a label each, (N,)."""


class Task(NamedTuple):
    """What is to be told, learned on `train` and counted on `dev`; `word_form` of a token is its word."""

    train: list[LabelledSentence]
    dev: list[LabelledSentence]
    classifier: Classifier
    word_form: Callable[[str], str]


class Accuracies(NamedTuple):
    """Per cent of `dev` labels that are right, by the words alone and by each layer; and how many labels there were."""

    most_frequent: float
    layers: list[float]
    train: int
    dev: int


def tagging_task(train: Location, dev: Location, reader: ColumnTagsReader) -> Task:
    """Tags of tokens by a linear classifier (Table 6)."""
    return Task(_read(train, reader), _read(dev, reader), linear, str)


def sense_task(train: Location, dev: Location, reader: ColumnTagsReader) -> Task:
    """Senses of words by the nearest average (Table 5); the tag of a token is its sense, or `O`.

    Raises `ConfigurationError` for a file without a sense.
    """
    return Task(_read(train, reader, NO_SENSE), _read(dev, reader, NO_SENSE), nearest_sense, str.lower)


def probe(embedder: Embedder, task: Task) -> Accuracies:
    """Train and count, each layer by itself. The embedder is one of all layers."""
    if len(embedder.shape) != 3:
        raise ConfigurationError("the embedder gives one mix of the layers; wanted one that was loaded with 'all'")
    train = embed_examples(embedder, task.train, task.word_form)
    dev = embed_examples(embedder, task.dev, task.word_form)
    layers = [task.classifier(train, dev, layer) for layer in range(embedder.shape[0])]
    baseline, *by_layer = [100 * float(np.mean(said == dev.labels)) for said in [most_frequent(train, dev), *layers]]
    return Accuracies(baseline, by_layer, len(train.labels), len(dev.labels))


def random_twin(embedder: Embedder, seed: int) -> Embedder:
    """The same with weights that have learned nothing, as a control: what a layer's shape and the spelling give."""
    twin = deepcopy(embedder)
    bilm = twin.elmo.bilm
    # Not strict: a warm state in the files is left there; sentences start from zeros.
    bilm.load_state_dict(BiLM.random(bilm.options, seed).state_dict(), strict=False)
    return twin


def most_frequent(train: Examples, dev: Examples) -> np.ndarray:
    """The most frequent label of each word, (N,); of all words, for one that training has not: the baseline."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for word, label in zip(train.words, train.labels, strict=True):
        counts[word][label] += 1
    overall = Counter(train.labels)
    said = [counts.get(word, overall).most_common(1)[0][0] for word in dev.words]
    return np.array(said, dtype=train.labels.dtype)  # as wide as the longest label, said or not


def linear(train: Examples, dev: Examples, layer: int) -> np.ndarray:
    """Labels (N,) by logistic regression over a layer's numbers, each scaled to a deviation of 1 in training.

    The loss is that of scikit-learn's `LogisticRegression(C=0.1)`. Its minimum is looked for over whitened numbers,
    which takes L-BFGS a third of the passes over the data.
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

    # The columns of `whiten` are at right angles, so the penalty of the weights over `scaled` is a sum over columns.
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
    """A map (D, R) of numbers (N, D) to uncorrelated ones of a like deviation, but for directions without any."""
    covariance = (numbers.T @ numbers).double() / len(numbers)  # (D, D)
    variances, directions = torch.linalg.eigh(covariance)  # (D,), (D, D)
    kept = variances > 1e-6 * variances.max()  # the token layer has each number twice, for example
    return (directions[:, kept] * (variances[kept] + 0.01).rsqrt()).float()


def nearest_sense(train: Examples, dev: Examples, layer: int) -> np.ndarray:
    """Senses (N,): that of the word whose average over training is nearest by cosine (ELMo §5.3; Melamud et al. 2016).

    A word that training has not gets what the baseline says; the paper takes the first sense of WordNet.
    """
    predicted = most_frequent(train, dev)
    known_places, asked_places = _places(train.words), _places(dev.words)
    for word in known_places.keys() & asked_places.keys():
        known, asked = known_places[word], asked_places[word]
        senses, which = np.unique(train.labels[known], return_inverse=True)  # (S,), (N of the word,)
        members = np.eye(len(senses), dtype=np.float32)[which].T  # (S, N of the word)
        sums = members @ train.vectors[layer, known]  # (S, D), of the averages' direction
        sums /= np.linalg.norm(sums, axis=1, keepdims=True)
        predicted[asked] = senses[(dev.vectors[layer, asked] @ sums.T).argmax(axis=1)]
    return predicted


def _places(words: np.ndarray) -> dict[str, list[int]]:
    """Where each word stands."""
    places = defaultdict(list)
    for place, word in enumerate(words.tolist()):
        places[word].append(place)
    return places


def _read(path: Location, reader: ColumnTagsReader, none: str = "") -> list[LabelledSentence]:
    """The sentences of a file of columns; the label `none` is none."""
    sentences = [
        LabelledSentence(
            instance["metadata"]["words"],  # type: ignore[index]
            [None if label == none else label for label in instance["tags"].labels],  # type: ignore[attr-defined]
        )
        for instance in reader.read(path)
    ]
    if not any(label is not None for sentence in sentences for label in sentence.labels):
        raise ConfigurationError(f"{fspath(path)}: found no token with a label other than {none!r}; wanted some")
    return sentences
