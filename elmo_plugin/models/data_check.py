"""Check the data of a config before training: its labels, its texts, and whether the model fits them."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, Optional

from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, DatasetReader, Instance, Vocabulary
from allennlp.data.fields import LabelField, TextField
from allennlp.models import Model

from elmo_plugin.common import labels_not_in_train, labels_of, some_of
from elmo_plugin.models.readers import doubtful_columns

PARTS = ("train", "validation", "test")
LONG = 400
"""Texts with more tokens than this are long. The memory of a batch grows with its longest text."""
RARE = 5
"""Labels with fewer examples than this are rare."""
MAX_BYTES = 48
"""`elmo_characters` reads this many bytes of a word in UTF-8 and cuts off the rest."""
DEBRIS = re.compile(r"<br|</?[a-z]+>|&(?:#\d+|amp|lt|gt|quot|nbsp);|#39;|\ufffd", re.IGNORECASE)
"""A pattern for the traces of markup or of a wrong encoding in a text."""
MOST_COMPARED = 10**6
"""The number of distinct texts of a part that are kept, as hashes, to find repeated ones. They take about 150 MB."""


@dataclass
class Part:
    """One part of the data, in memory that does not grow with it beyond `MOST_COMPARED` texts."""

    name: str
    n_texts: int = 0
    n_tokens: int = 0
    longest: int = 0
    problems: Counter[str] = field(default_factory=Counter)
    """The number of texts with each problem, in the words of the advice."""
    labels: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """The labels of each field with their counts."""
    compared: dict[int, Optional[tuple[str, ...]]] = field(default_factory=dict)
    """The hash of each distinct text, with the labels of its first occurrence, or `None` after it had others."""
    first_instances: list[Instance] = field(default_factory=list)

    def add(self, instance: Instance, train: Optional["Part"]) -> None:
        """Count one text, and compare it with those of `train`."""
        tokens: list[str] = []
        labels: list[str] = []
        for each in instance.fields.values():
            if isinstance(each, TextField):
                tokens += [token.text or "" for token in each.tokens]
            elif isinstance(each, LabelField):
                labels.append(str(each.label))
        for key, found_labels in labels_of(instance):
            self.labels[key].update(found_labels)
        self.n_texts += 1
        self.n_tokens += len(tokens)
        self.longest = max(self.longest, len(tokens))
        found = {
            "are empty; delete them, or look for a broken line": not any(tokens),
            f"have more than {LONG} tokens; split them, or make smaller batches": len(tokens) > LONG,
            f"have words that are cut to {MAX_BYTES} bytes; look for missing spaces": any(
                len(word.encode("utf-8", "ignore")) > MAX_BYTES for word in tokens
            ),
            "contain markup such as <br> or &#39;, or U+FFFD; clean them": DEBRIS.search(" ".join(tokens)) is not None,
        }
        text = hash(tuple(tokens))
        if text in self.compared:
            if self.compared[text] != tuple(labels):
                self.compared[text] = None
        elif len(self.compared) < MOST_COMPARED:
            self.compared[text] = tuple(labels)
        if train is not None:
            repeated = "are also in train, so scores will be too high; remove them from one of the two"
            found[repeated] = text in train.compared
        self.problems.update(problem for problem, is_there in found.items() if is_there)
        if len(self.first_instances) < 2:
            self.first_instances.append(instance)


class DataCheck(NamedTuple):
    """The data of a config, and what is wrong with them."""

    parts: list[Part]
    failures: list[str]
    """Why the config cannot train."""
    advice: list[str]
    """What to do about the texts and labels."""


def check_data(params: Params, sentences: Optional[int] = None) -> DataCheck:
    """Read the data of a config, build its model and run it on two texts.

    # Parameters

    params : `Params`
        A config of `elmo-plugin train`.
    sentences : `Optional[int]`
        Read only this many texts of each part.
    """
    parts: list[Part] = []
    failures = []
    for name in PARTS:
        path = params.get(f"{name}_data_path", None)
        if path is not None:
            try:
                parts.append(_read(name, params, path, sentences, parts[0] if parts and name != "train" else None))
            except Exception as error:  # a reader of another package may raise anything
                failures.append(f"'{name}_data_path': {_message(error)}")
    if params.get("train_data_path") is None:
        failures.append("'train_data_path': expected a path, got none")
    if parts and parts[0].name == "train":
        try:
            _try_model(params, parts, sentences)
        except Exception as error:  # and so may a model
            failures.append(f"'model': {_message(error)}")
    return DataCheck(parts, failures, [*doubtful_columns(params.params), *_advice(parts)])


def _instances(name: str, params: Params, path: str, sentences: Optional[int]) -> Iterator[Instance]:
    keys = params.duplicate()
    own = keys.get("validation_dataset_reader", None) if name != "train" else None
    reader = DatasetReader.from_params(own or keys.pop("dataset_reader"))
    if sentences is not None:
        reader.max_instances = sentences
    yield from reader.read(path)


def _read(name: str, params: Params, path: str, sentences: Optional[int], train: Optional[Part]) -> Part:
    part = Part(name)
    for instance in _instances(name, params, path, sentences):
        part.add(instance, train)
    if not part.n_texts:
        raise ConfigurationError(f"{path}: expected texts, got none")
    return part


def _try_model(params: Params, parts: Sequence[Part], sentences: Optional[int]) -> None:
    """Build the model as `elmo-plugin train` does, and compute the loss of the first two training texts."""
    keys = params.duplicate()
    # A vocabulary that is made of instances reads the data a second time.
    instances = chain.from_iterable(
        _instances(part.name, params, params.get(f"{part.name}_data_path"), sentences) for part in parts
    )
    vocab = Vocabulary.from_params(keys.pop("vocabulary", {}), instances=instances)
    model = Model.from_params(keys.pop("model"), vocab=vocab)
    batch = Batch(parts[0].first_instances)
    batch.index_instances(vocab)
    model(**batch.as_tensor_dict())


def _advice(parts: Sequence[Part]) -> Iterator[str]:
    """Yield what to do about texts and labels."""
    train = next((part for part in parts if part.name == "train"), None)
    for part in parts:
        for problem, count in part.problems.items():
            yield f"{part.name}: {count:,} of {part.n_texts:,} texts {problem}"
        if train is not None:
            yield from labels_not_in_train(part.name, part.labels, train.labels)
    if train is not None:
        for name, counts in train.labels.items():
            if len(counts) == 1:
                yield f"train: every label of '{name}' is {next(iter(counts))!r}, so there is nothing to learn"
            rare = sorted(label for label, count in counts.items() if count < RARE)
            if rare:
                labels = f"1 label of '{name}' has" if len(rare) == 1 else f"{len(rare)} labels of '{name}' have"
                yield f"train: {labels} fewer than {RARE} examples ({some_of(rare)}); add some, or drop such a label"
        contradicting = sum(labels is None for labels in train.compared.values())
        if contradicting:
            yield f"train: {contradicting:,} texts occur with different labels; keep one label for each"


def _message(error: Exception) -> str:
    """Return the first line of an error's message, after its type unless it is a `ConfigurationError`."""
    text = str(error).strip().split("\n")[0]
    return text if isinstance(error, ConfigurationError) else f"{type(error).__name__}: {text}"
