"""Perplexity: the metrics of `allennlp evaluate` against values computed word by word, and how they are summed."""

import json
import math
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.models import load_archive

from elmo_plugin.pretraining import BidirectionalLanguageModel, BidirectionalPerplexity
from elmo_plugin.pretraining.perplexity import COUNTS, Throughput
from tests.language_model_oracles import (
    HELDOUT,
    WORD_INPUT,
    WORDS,
    Config,
    experiment,
    nats_by_hand,
    perplexities,
    write_corpus,
)
from tests.task_oracles import allennlp, train

SENTENCES = [line.split() for line in HELDOUT]
SENTENCE_BATCHES = {"type": "sentence_batches", "max_tokens": 40, "max_sentence_length": 20}
STREAMS = {"type": "unrolled_streams", "streams": 2, "window": 4}
SAMPLED = {"type": "sampled", "n_samples": 5}
ADAPTIVE = {"type": "adaptive", "cutoffs": [5, 12], "div_value": 2.0}
READING_WORDS = {"bilm": {"options": WORD_INPUT, "seed": 1}, "share_embedding_softmax": True}
MODELS: dict[str, tuple[Config, Config]] = {
    "full": (SENTENCE_BATCHES, {}),
    "sampled": (STREAMS, {"softmax": SAMPLED}),
    "adaptive": (STREAMS, {"softmax": ADAPTIVE}),
    "words": (SENTENCE_BATCHES, READING_WORDS),
    "streamed words": (STREAMS, {**READING_WORDS, "softmax": SAMPLED}),
}


def train_and_load(folder: Path, name: str) -> tuple[Path, BidirectionalLanguageModel]:
    """Train one of `MODELS` for an epoch, and return its archive and the model loaded from it."""
    batches, model = MODELS[name]
    config = experiment(write_corpus(folder), batches, **model)
    config["trainer"]["num_epochs"] = 1
    train(config, folder / "run")
    archive = folder / "run/model.tar.gz"
    loaded = load_archive(str(archive)).model
    assert isinstance(loaded, BidirectionalLanguageModel)
    return archive, loaded


def deal(streams: int, window: int) -> list[list[list[str]]]:
    """Distribute sentences to streams: each in turn takes as many as fill a window, with T + 1 steps per sentence."""
    rest, dealt, ahead = list(SENTENCES), [[] for _ in range(streams)], [0] * streams
    while rest:
        for stream in range(streams):
            while ahead[stream] < window and rest:
                dealt[stream].append(rest.pop(0))
                ahead[stream] += len(dealt[stream][-1]) + 1
            ahead[stream] -= window
    return dealt


@pytest.mark.parametrize("name", MODELS)
def test_evaluate_reports_the_perplexity_of_the_full_softmax_computed_by_hand(tmp_path: Path, name: str) -> None:
    """With streams, the state is carried from sentence to sentence, in the expected values too."""
    archive, model = train_and_load(tmp_path, name)
    batches, _ = MODELS[name]
    by_stream = deal(batches["streams"], batches["window"]) if batches == STREAMS else [[each] for each in SENTENCES]
    wanted = perplexities([nats_by_hand(model, *stream) for stream in by_stream])
    found = evaluate_from_archive(archive, str(tmp_path / "heldout.txt"))
    assert found.pop("loss") == pytest.approx(math.log(found["perplexity"]), rel=0.2)  # a mean over batches
    n_unknown = sum(word not in WORDS for sentence in SENTENCES for word in sentence)
    assert n_unknown == 5
    assert found == pytest.approx({**wanted, "oov_rate": n_unknown / wanted["n_tokens"]}, rel=1e-5)
    assert found["n_tokens"] == sum(len(sentence) + 1 for sentence in SENTENCES)


def test_evaluate_prints_both_directions_and_the_rate_of_unknown_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, _ = train_and_load(tmp_path, "full")
    wanted = evaluate_from_archive(archive, str(tmp_path / "heldout.txt"))
    capsys.readouterr()
    allennlp("evaluate", archive, tmp_path / "heldout.txt")
    printed = capsys.readouterr().out
    found = json.loads(printed[printed.index("{") :])
    assert {"forward_perplexity", "backward_perplexity", "oov_rate", "n_tokens"} <= set(found)
    assert found == pytest.approx(wanted)
    allennlp("evaluate", archive, tmp_path / "heldout.txt", "--output-file", tmp_path / "metrics.json")
    assert capsys.readouterr().out.count('"oov_rate"') <= 1  # AllenNLP's own log of what it writes
    assert json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8")) == pytest.approx(wanted)
    forward, backward = found["forward_perplexity"], found["backward_perplexity"]
    assert found["perplexity"] == pytest.approx(math.sqrt(forward * backward))
    assert abs(forward - backward) > 0.01


def values(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers)


def test_counts_add_up_until_they_are_reset() -> None:
    metric = BidirectionalPerplexity()
    assert metric.get_metric() == {}
    metric(values(1.0, 2.0), values(0.0, 1.0), torch.tensor([False, True]))
    metric(values(3.0), values(2.0), torch.tensor([True]))
    wanted: dict[str, Any] = {
        "perplexity": math.exp(1.5),
        "forward_perplexity": math.exp(2.0),
        "backward_perplexity": math.e,
        "oov_rate": 2 / 3,
        "n_tokens": 3,
    }
    assert metric.get_metric(reset=True) == pytest.approx(wanted)
    assert metric.get_metric() == {}


def test_many_small_numbers_are_summed_in_float64() -> None:
    metric = BidirectionalPerplexity()
    some = torch.full((2**20,), 0.1)
    for _ in range(20):
        metric(some, some, some > 1)
    assert math.log(metric.get_metric()["perplexity"]) == pytest.approx(float(some[0]), rel=1e-12)


def test_a_perplexity_that_overflows_is_infinite() -> None:
    metric = BidirectionalPerplexity()
    metric(values(1000.0), values(0.0), torch.tensor([False]))
    found = metric.get_metric()
    assert found["forward_perplexity"] == math.inf
    assert found["backward_perplexity"] == 1.0 and found["perplexity"] == math.exp(500)


def test_processes_add_their_counts_in_one_sum() -> None:
    metric = BidirectionalPerplexity()
    others = torch.tensor([10.0, 20.0, 5.0, 1.0], dtype=torch.float64)
    with patch("elmo_plugin.pretraining.perplexity.dist_reduce_sum", side_effect=lambda own: own + others) as reduced:
        metric(values(1.0, 2.0), values(4.0, 6.0), torch.tensor([False, True]))
    assert reduced.call_count == 1
    assert metric.counts == dict(zip(COUNTS, (13.0, 30.0, 7.0, 2.0), strict=True))


def test_throughput_is_tokens_over_time_from_the_first_batch_on(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([10.0, 12.0, 20.0])
    monkeypatch.setattr("elmo_plugin.pretraining.perplexity.perf_counter", lambda: next(now))
    throughput = Throughput()
    throughput.add(7)
    assert throughput.get_metric() == {}
    throughput.add(30)
    assert throughput.get_metric(reset=True) == {"tokens/s": 15.0}
    assert throughput.get_metric() == {}
