"""Measure how well each layer alone predicts tags and word senses (ELMo §5.3, Tables 5 and 6)."""

import random
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from os import fspath
from pathlib import Path
from typing import NamedTuple, Optional

import numpy as np
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError
from more_itertools import grouper, map_reduce, unique_everseen

from elmo_plugin.bilm import BiLM
from elmo_plugin.elmo import Elmo
from elmo_plugin.embedding import Embedder, read_lines
from elmo_plugin.models import ColumnTagsReader, FilePath
from elmo_plugin.text import TextFile, split_tokens

MIN_COUNT, MAX_COUNT = 50, 500
"""The allowed counts of a word in the text: enough to average over, and not so many that the word dominates."""
MIN_RATIO = 0.9
"""The smallest ratio between the counts of the two words of a pair."""
DEV_EACH = 5
"""One sentence in this many is for evaluation, the others are for training."""


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


class ProbingTask(NamedTuple):
    """A probing task: train on `train`, evaluate on `dev`. `word_form` maps a token to its word.

    `classifier` is a function of training examples, evaluation examples and a layer that predicts the labels (N,) of
    the latter.
    """

    train: list[LabelledSentence]
    dev: list[LabelledSentence]
    classifier: Callable[[Examples, Examples, int], np.ndarray]
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


def pseudoword_task(text: Path, pairs: int, seed: int, sentences: Optional[int] = None) -> ProbingTask:
    """Return the task of telling which of two words a pseudoword replaced, by the nearest average.

    A pseudoword merges two words into one token (Schütze 1992; Gale, Church & Yarowsky 1992).

    # Parameters

    text : one tokenized sentence per line
    pairs : the number of pseudowords
    seed : the seed for drawing the pairs
    sentences : how many lines of the text to read; `None` reads all

    Raises `ConfigurationError` if the text cannot be read or has too few words to pair.
    """
    tokenized = [split_tokens(row.text) for row in islice(read_lines(TextFile(text).lines(), str(text)), sentences)]
    drawn = draw_pairs(Counter(chain.from_iterable(tokenized)), pairs, seed)
    if len(drawn) < pairs:
        raise ConfigurationError(
            f"{text}: expected {pairs} pairs of words that occur {MIN_COUNT} to {MAX_COUNT} times, got {len(drawn)}: "
            "use a longer text or fewer pairs"
        )
    made = list(unique_everseen(conflate(tokenized, drawn), key=lambda sentence: tuple(sentence.tokens)))
    train = [sentence for number, sentence in enumerate(made, 1) if number % DEV_EACH]
    return ProbingTask(train, made[DEV_EACH - 1 :: DEV_EACH], nearest_sense, str)


def read_senses(path: FilePath, reader: ColumnTagsReader) -> list[LabelledSentence]:
    """Read a file of columns in which the tag of a token is its sense, or `O`.

    Raises `ConfigurationError` if it contains no sense.
    """
    return _read(path, reader, none="O")


def draw_pairs(counts: Mapping[str, int], pairs: int, seed: int) -> list[tuple[str, str]]:
    """Draw up to `pairs` pairs of lower-case words that occur about equally often; each word is in one pair."""
    draw = random.Random(seed)
    words = sorted(
        word for word, n in counts.items() if word.isalpha() and word.islower() and MIN_COUNT <= n <= MAX_COUNT
    )
    draw.shuffle(words)  # so that words with equal counts are paired by chance, not by the alphabet
    words.sort(key=counts.__getitem__)
    neighbours = grouper(words, 2, incomplete="ignore")
    similar = [(rarer, other) for rarer, other in neighbours if counts[rarer] >= MIN_RATIO * counts[other]]
    return draw.sample(similar, min(pairs, len(similar)))


def conflate(sentences: Iterable[list[str]], pairs: Iterable[tuple[str, str]]) -> Iterator[LabelledSentence]:
    """Yield the sentences that contain a word of a pair. Its pseudoword replaces the word, which becomes the label."""
    pseudowords = {word: "-".join(pair) for pair in pairs for word in pair}
    for tokens in sentences:
        labels = [token if token in pseudowords else None for token in tokens]
        if any(labels):
            yield LabelledSentence([pseudowords.get(token, token) for token in tokens], labels)


def probe(embedder: Embedder, task: ProbingTask) -> Accuracies:
    """Train and evaluate each layer of an embedder's biLM by itself, whatever its mix."""
    embedder = embedder.with_mix("all")
    train = embed_examples(embedder, task.train, task.word_form)
    dev = embed_examples(embedder, task.dev, task.word_form)
    layers = Tqdm.tqdm(range(embedder.shape[0]), desc="training", unit=" layers")
    predictions = [most_frequent(train, dev), *(task.classifier(train, dev, layer) for layer in layers)]
    baseline, *accuracies = [100 * float(np.mean(predicted == dev.labels)) for predicted in predictions]
    return Accuracies(baseline, accuracies, len(train.labels), len(dev.labels))


def embed_examples(
    embedder: Embedder, sentences: Sequence[LabelledSentence], word_form: Callable[[str], str] = str
) -> Examples:
    """Return the labelled tokens of all sentences in order; `word_form` maps a token to its word.

    Memory holds the vectors of these tokens only: 4 · L · D bytes per token.
    """
    labelled = [[label is not None for label in sentence.labels] for sentence in sentences]
    ends = np.cumsum([sum(each) for each in labelled])
    vectors = np.empty((embedder.shape[0], ends[-1], embedder.shape[2]), dtype=np.float32)  # (L, N, D)
    of_sentences = np.split(vectors, ends[:-1], axis=1)  # views
    embedded = embedder.by_length([sentence.tokens for sentence in sentences])
    for index, array in Tqdm.tqdm(embedded, desc="embedding", unit=" sentences", total=len(sentences)):
        of_sentences[index][:] = array[:, labelled[index]]
    pairs = [pair for sentence in sentences for pair in zip(*sentence, strict=True) if pair[1] is not None]
    return Examples(
        np.array([word_form(token) for token, _ in pairs]), np.array([label for _, label in pairs]), vectors
    )


def random_twin(embedder: Embedder, seed: int) -> Embedder:
    """Return an embedder with random weights as a control: it shows what architecture and spelling alone achieve.

    It returns all layers, and its sentences start from zeros, because a warm state belongs to trained weights.
    """
    trained = embedder.elmo.bilm
    bilm = BiLM.random(trained.options, seed).requires_grad_(False).set_precision(trained.precision)
    return Embedder(Elmo.from_parts(bilm, [], dropout=0.0).to(embedder.device), embedder.word_id)


def most_frequent(train: Examples, dev: Examples) -> np.ndarray:
    """Predict the most frequent label (N,) of each word, or of all words for an unknown one: the baseline."""
    counts = map_reduce(range(len(train.words)), train.words.__getitem__, train.labels.__getitem__, Counter)
    overall = Counter(train.labels)
    return np.array(
        [counts.get(word, overall).most_common(1)[0][0] for word in dev.words],
        dtype=train.labels.dtype,  # wide enough for the longest label of training
    )


def linear(train: Examples, dev: Examples, layer: int) -> np.ndarray:
    """Predict labels (N,) by logistic regression over a layer's features, scaled to unit deviation in training."""
    from sklearn import exceptions, linear_model, pipeline, preprocessing  # takes half as long as PyTorch

    model = pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression(C=0.1, max_iter=100))
    # After 75 iterations, accuracies change by less than 0.1 %.
    with warnings.catch_warnings(action="ignore", category=exceptions.ConvergenceWarning):
        model.fit(train.vectors[layer], train.labels)
    return np.asarray(model.predict(dev.vectors[layer]))  # (N of dev,)


def nearest_sense(train: Examples, dev: Examples, layer: int) -> np.ndarray:
    """Predict the sense (N,) whose average over training is nearest by cosine (ELMo §5.3; Melamud et al. 2016).

    A word that training lacks gets the baseline's prediction; in the paper it gets the first sense of WordNet.
    """
    sums: dict[str, dict[str, np.ndarray]] = defaultdict(dict)  # in the direction of the averages
    for word, sense, vector in zip(train.words, train.labels, train.vectors[layer], strict=True):
        sums[word][sense] = sums[word].get(sense, 0) + vector  # (D,)
    predicted = most_frequent(train, dev)
    for index, (word, vector) in enumerate(zip(dev.words, dev.vectors[layer], strict=True)):
        if word in sums:
            cosines = {sense: vector @ each / np.linalg.norm(each) for sense, each in sums[word].items()}
            predicted[index] = max(cosines, key=cosines.__getitem__)
    return predicted


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
