"""Span F1 against AllenNLP's measure of it, in one process and in two."""

import json
import random
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from allennlp.commands import train as train_command
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.training.metrics import SpanBasedF1Measure
from sklearn.metrics import precision_recall_fscore_support

from elmo_plugin.models.spans import TAGS_TO_SPANS, SpanF1
from tests.distributed_jobs import start_processes
from tests.models.configs import ELMO
from tests.task_oracles import TOWNS, experiment, tagger, tags_reader

LABELS = {
    "BIO": ["O", "B-X", "I-X", "B-Y", "I-Y", "B-C-Y"],
    "IOB1": ["O", "I-X", "B-X", "I-Y"],
    "BIOUL": ["O", "B-X", "I-X", "L-X", "U-X", "B-Y", "I-Y", "L-Y", "U-Y"],
    "BMES": ["B-X", "M-X", "E-X", "S-X", "S-Y"],
}


def sentences(encoding: str, seed: int, count: int = 20) -> list[list[str]]:
    """Random tags of the lengths 0 to 9, the same lengths for each seed."""
    draw = random.Random(seed)
    return [[draw.choice(LABELS[encoding]) for _ in range(place % 10)] for place in range(count)]


def theirs(encoding: str, predicted: list[list[str]], gold: list[list[str]]) -> dict[str, float]:
    vocab = Vocabulary({"labels": dict.fromkeys(LABELS[encoding], 1)})
    to_spans: Any = TAGS_TO_SPANS[encoding]
    measure = SpanBasedF1Measure(vocab, "labels", label_encoding=None, tags_to_spans_function=to_spans)
    index = vocab.get_token_to_index_vocabulary("labels")
    for found, wanted in zip(predicted, gold, strict=True):
        if wanted:
            scores = torch.eye(len(index))[[index[tag] for tag in found]]
            measure(scores.unsqueeze(0), torch.tensor([[index[tag] for tag in wanted]]))
    return measure.get_metric()


@pytest.mark.parametrize("encoding", LABELS)
def test_it_counts_as_allennlp_does(encoding: str) -> None:
    predicted, gold = sentences(encoding, 0), sentences(encoding, 100)
    metric = SpanF1(LABELS[encoding], encoding)
    for start in range(0, 20, 7):
        metric(predicted[start : start + 7], gold[start : start + 7])
    assert metric.get_metric(reset=True) == pytest.approx(theirs(encoding, predicted, gold))
    assert metric.get_metric() == {f"{key}-overall": 0.0 for key in ("precision", "recall", "f1-measure")}


def test_a_type_that_cannot_be_predicted_counts_overall() -> None:
    metric = SpanF1(["O", "B-X", "I-X"], "BIO")
    metric([["B-X", "O", "O"], ["O", "O"]], [["B-X", "B-NEW", "I-NEW"], ["strange", "O"]])
    scores = metric.get_metric()
    assert scores["precision-overall"] == pytest.approx(1.0) and scores["recall-overall"] == pytest.approx(1 / 3)
    assert {key for key in scores if "recall" in key} == {"recall-X", "recall-overall"}


def test_without_an_encoding_tokens_are_counted_as_scikit_learn_counts_them() -> None:
    labels = ["O", "EVENT", "STATE", "OTHER"]
    draw = random.Random(4)
    predicted, gold = (draw.choices(labels, k=300) for _ in range(2))
    metric = SpanF1(labels, None)
    metric([predicted[:200], predicted[200:]], [gold[:200], gold[200:]])
    scores = metric.get_metric()
    for name, found in [("EVENT", ["EVENT"]), ("overall", labels[1:])]:
        wanted = precision_recall_fscore_support(gold, predicted, labels=found, average="micro")[:3]
        assert [scores[f"{key}-{name}"] for key in ("precision", "recall", "f1-measure")] == pytest.approx(wanted)


@pytest.mark.slow
def test_allennlp_trains_a_tagger_in_two_processes_and_measures_every_sentence_once(tmp_path: Path) -> None:
    validation = tmp_path / "five.txt"  # three for one process, two for the other
    validation.write_text("\n\n".join(TOWNS.read_text(encoding="utf-8").strip().split("\n\n")[:5]), encoding="utf-8")
    config = experiment(tagger(ELMO, verbose_metrics=True), tags_reader(), TOWNS, num_epochs=1)
    config |= {"validation_data_path": str(validation), "distributed": {"cuda_devices": [-1, -1]}}
    with patch.object(train_command.mp, "spawn", start_processes):
        train_command.train_model(Params(config), str(tmp_path / "run"), include_package=["elmo_plugin"])
    told = json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))
    alone = evaluate_from_archive(tmp_path / "run" / "model.tar.gz", str(validation))
    assert alone["f1-measure-overall"] > 0
    for name, value in alone.items():
        if name != "loss":  # AllenNLP's is the mean of the batches, which are others
            assert told[f"best_validation_{name}"] == pytest.approx(value, abs=1e-6)
