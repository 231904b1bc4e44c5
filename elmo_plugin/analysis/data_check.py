"""Check the data of a config before training: its labels, its texts, and whether the biLM and the model fit them."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional

import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, DatasetReader, Instance, Vocabulary
from allennlp.data.fields import LabelField, MultiLabelField, SequenceLabelField, TextField
from allennlp.models import Model

from elmo_plugin.elmo import Elmo
from elmo_plugin.pretraining import load_language_model, sentence_log_probabilities

PARTS = ("train", "validation", "test")
LONG = 400
"""Texts with more tokens than this are long. The memory of a batch grows with its longest text."""
RARE = 5
"""Labels with fewer examples than this are rare."""
MAX_BYTES = 48
"""`elmo_characters` reads this many bytes of a word in UTF-8 and cuts off the rest."""
DEBRIS = re.compile(r"<br|</?[a-z]+>|&(?:#\d+|amp|lt|gt|quot|nbsp);|#39;|\ufffd", re.IGNORECASE)
"""A pattern for the traces of markup or of a wrong encoding in a text."""
SCORED = 1000
"""The number of training texts whose perplexity is measured."""


class Part(NamedTuple):
    """One part of the data: its instances, the tokens of each, and the labels of each field with their counts."""

    name: str
    instances: list[Instance]
    texts: list[tuple[str, ...]]
    labels: dict[str, Counter[str]]


class Fit(NamedTuple):
    """How well a biLM predicts the first training texts."""

    bilm: str
    perplexity: float
    """The perplexity of both directions together."""
    unknown: float
    """The share of tokens that are not in the biLM's vocabulary, from 0 to 1."""
    texts: int


class DataCheck(NamedTuple):
    """The data of a config, and what is wrong with them."""

    parts: list[Part]
    fit: Optional[Fit]
    """`None` without a biLM that has a softmax."""
    failures: list[str]
    """Why the config cannot train."""
    advice: list[str]
    """What to do about the texts and labels."""


def check_data(params: Params, sentences: Optional[int] = None) -> DataCheck:
    """Read the data of a config, build its model and run it on two texts.

    # Parameters

    params : `Params`
        A config of `allennlp train`.
    sentences : `Optional[int]`
        Read only this many texts of each part.
    """
    parts, failures, fit = [], [], None
    for name in PARTS:
        path = params.get(f"{name}_data_path", None)
        if path is not None:
            try:
                parts.append(_read(name, params, path, sentences))
            except Exception as error:  # a reader of another package may raise anything
                failures.append(f"'{name}_data_path': {_message(error)}")
    if params.get("train_data_path") is None:
        failures.append("'train_data_path': expected a path, got none")
    if parts and parts[0].name == "train":
        try:
            model = _build(params, parts)
            fit = _fit(model, parts[0].texts[:SCORED])
        except Exception as error:  # and so may a model
            failures.append(f"'model': {_message(error)}")
    return DataCheck(parts, fit, failures, [*_advice(parts), *_advice_on_fit(fit)])


def _read(name: str, params: Params, path: str, sentences: Optional[int]) -> Part:
    keys = params.duplicate()
    own = keys.get("validation_dataset_reader", None) if name != "train" else None
    reader = DatasetReader.from_params(own or keys.pop("dataset_reader"))
    if sentences is not None:
        reader.max_instances = sentences
    instances = list(reader.read(path))
    texts, labels = [], defaultdict[str, Counter[str]](Counter)
    for instance in instances:
        tokens: list[str] = []
        for key, field in instance.fields.items():
            if isinstance(field, TextField):
                tokens += [token.text or "" for token in field.tokens]
            elif isinstance(field, LabelField):
                labels[key][str(field.label)] += 1
            elif isinstance(field, SequenceLabelField | MultiLabelField):
                labels[key].update(map(str, field.labels))
        texts.append(tuple(tokens))
    if not instances:
        raise ConfigurationError(f"{path}: expected texts, got none")
    return Part(name, instances, texts, dict(labels))


def _build(params: Params, parts: Sequence[Part]) -> Model:
    """Build the model as `allennlp train` does, and run it on the first two training texts."""
    keys = params.duplicate()
    instances = [instance for part in parts for instance in part.instances]
    vocab = Vocabulary.from_params(keys.pop("vocabulary", {}), instances=instances)
    model = Model.from_params(keys.pop("model"), vocab=vocab).eval()
    batch = Batch(parts[0].instances[:2])
    batch.index_instances(vocab)
    with torch.no_grad():
        model(**batch.as_tensor_dict())
    return model


def _fit(model: Model, texts: Sequence[tuple[str, ...]]) -> Optional[Fit]:
    """Return how well the model's biLM predicts texts, or `None` without a biLM that has a softmax."""
    source = next((part.bilm.source for part in model.modules() if isinstance(part, Elmo)), "")
    if not source:
        return None
    try:
        language_model = load_language_model(source)
    except ConfigurationError:  # most weight files hold no softmax
        return None
    tokens = sum(len(text) + 1 for text in texts)
    nats = -sentence_log_probabilities(language_model, texts).mean(axis=1).sum() / tokens
    known = language_model.vocab.get_token_to_index_vocabulary("tokens")
    words = [word for text in texts for word in text]
    return Fit(source, math.exp(nats), sum(word not in known for word in words) / max(len(words), 1), len(texts))


def _advice(parts: Sequence[Part]) -> Iterator[str]:
    """Yield what to do about texts and labels."""
    train = next((part for part in parts if part.name == "train"), None)
    for part in parts:
        yield from _advice_on_texts(part)
        if part is train:
            yield from _advice_on_labels(part)
        elif train is not None:
            yield from _advice_on_other_part(part, train)


def _advice_on_texts(part: Part) -> Iterator[str]:
    empty = sum(not any(text) for text in part.texts)
    if empty:
        yield f"{part.name}: {empty:,} texts are empty; delete them, or look for a broken line"
    long = [len(text) for text in part.texts if len(text) > LONG]
    if long:
        yield (
            f"{part.name}: {len(long):,} texts have more than {LONG} tokens, the longest {max(long):,}; split them, or "
            "make smaller batches"
        )
    words = {word for text in part.texts for word in text}
    cut = sorted(word for word in words if len(word.encode("utf-8", "ignore")) > MAX_BYTES)
    if cut:
        yield (
            f"{part.name}: {len(cut):,} words are cut to {MAX_BYTES} bytes ({_some([word[:60] for word in cut])}); "
            "look for missing spaces"
        )
    debris = sum(bool(DEBRIS.search(" ".join(text))) for text in part.texts)
    if debris:
        yield f"{part.name}: {debris:,} texts contain markup such as <br> or &#39;, or U+FFFD; clean them"


def _advice_on_labels(train: Part) -> Iterator[str]:
    for name, counts in train.labels.items():
        if len(counts) == 1:
            yield f"train: every label of '{name}' is {next(iter(counts))!r}, so there is nothing to learn"
        rare = sorted(label for label, count in counts.items() if count < RARE)
        if rare:
            yield f"train: {len(rare)} labels of '{name}' have fewer than {RARE} examples ({_some(rare)})"
    labels = defaultdict[tuple[str, tuple[str, ...]], set[Any]](set)
    for instance, text in zip(train.instances, train.texts, strict=True):
        for key, field in instance.fields.items():
            if isinstance(field, LabelField):
                labels[key, text].add(field.label)
    contradicting = len({text for (_, text), found in labels.items() if len(found) > 1})
    if contradicting:
        yield f"train: {contradicting:,} texts occur with different labels; keep one label for each"


def _advice_on_other_part(part: Part, train: Part) -> Iterator[str]:
    known = set(train.texts)
    repeated = sum(text in known for text in part.texts)
    if repeated:
        yield (
            f"{part.name}: {repeated:,} of {len(part.texts):,} texts are also in train, so scores will be too "
            "high; remove them from one of the two"
        )
    for field, counts in part.labels.items():
        new = sorted(counts.keys() - train.labels.get(field, {}).keys())
        if new:
            yield (
                f"{part.name}: {len(new)} labels of '{field}' do not occur in train ({_some(new)}), so no model "
                "can learn them; add examples to train, or count them as errors"
            )


def _advice_on_fit(fit: Optional[Fit]) -> Iterator[str]:
    if fit is not None and fit.unknown > 0.1:
        yield (
            f"{fit.bilm}: {100 * fit.unknown:.0f} % of the words are not in its vocabulary; a biLM of this language "
            "and domain, or one fine-tuned on these texts, may do better"
        )


def _message(error: Exception) -> str:
    """Return the first line of an error's message, after its type unless it is a `ConfigurationError`."""
    text = str(error).strip().split("\n")[0]
    return text if isinstance(error, ConfigurationError) else f"{type(error).__name__}: {text}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
