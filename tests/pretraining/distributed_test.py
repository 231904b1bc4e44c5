"""Two processes together read, learn and report the same as one process with twice the streams."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from allennlp.commands import train
from allennlp.common import Params

from elmo_plugin.pretraining.vocabulary import WordIds
from tests.distributed_jobs import evaluate, in_two_processes, read, start_processes
from tests.language_model_oracles import experiment, language_model
from tests.loader_oracles import LINES, SENTENCES, WORDS, build_loader, id_of, write_shards

Config = dict[str, Any]
HALF: Config = {"type": "unrolled_streams", "streams": 2, "window": 4}
WHOLE: Config = {**HALF, "streams": 4}
BATCHES: Config = {"type": "sentence_batches", "max_tokens": 21, "max_sentence_length": 20}
SOFTMAXES = {
    "full": {"type": "full"},
    "sampled": {"type": "sampled", "n_samples": 5, "seed": 3},
    "adaptive": {"type": "adaptive", "cutoffs": [5, 12], "div_value": 2.0},
}


@pytest.mark.slow
@pytest.mark.parametrize("keys", [BATCHES, HALF], ids=["sentence_batches", "unrolled_streams"])
def test_two_processes_divide_each_pass_and_resume_from_one_state(tmp_path: Path, keys: Config) -> None:
    """Some blocks have fewer batches than there are processes."""
    ranks = in_two_processes(read, tmp_path / "run", write_shards(tmp_path), keys, 3, 1)
    wanted = sorted(word for sentence in SENTENCES for word in map(id_of, sentence))
    n_batches = ranks[0]["length"]
    for epoch in range(3):
        found = []
        for rank in ranks:
            for batch in rank["batches"][epoch * n_batches :][:n_batches]:
                ids = batch["tokens"]["words"]["tokens"] if keys is BATCHES else batch["windows"]["forward"]["words"]
                found += [word for word in ids.flatten().tolist() if word and word != 1]
        assert sorted(found) == wanted
    assert [len(rank["batches"]) for rank in ranks] == [3 * n_batches] * 2
    assert ranks[0]["state"] == ranks[1]["state"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "alone_keys", "lines", "n_batches"),
    [
        (BATCHES, BATCHES, LINES, (3, 5)),
        (HALF, WHOLE, ["fog", "on and on and on"], (2, 2)),  # the second process has nothing to read
    ],
    ids=["sentence_batches", "unrolled_streams, one idle process"],
)
def test_two_processes_report_the_perplexity_of_every_token_once(
    tmp_path: Path, keys: Config, alone_keys: Config, lines: list[str], n_batches: tuple[int, int]
) -> None:
    path = write_shards(tmp_path, lines)
    model = {"softmax": SOFTMAXES["sampled"]}
    alone = evaluate(path, alone_keys, model)
    ranks = in_two_processes(evaluate, tmp_path / "run", path, keys, model)
    assert (ranks[0]["n_batches"], alone["n_batches"]) == n_batches
    assert ranks[0]["n_batches"] == ranks[1]["n_batches"]
    assert alone["metrics"]["n_tokens"] == sum(len(line.split()) + 1 for line in lines)
    for rank in ranks:
        assert rank["metrics"] == pytest.approx(alone["metrics"], rel=1e-6)
    if keys is BATCHES:  # the mean over batches is AllenNLP's: a batch of nothing is no part of it
        assert sorted(ranks[0]["losses"] + ranks[1]["losses"]) == pytest.approx(sorted(alone["losses"]))


@pytest.mark.parametrize("softmax", ["full", "adaptive"])
def test_a_process_with_an_empty_batch_adds_no_counts_and_no_loss(softmax: str) -> None:
    model = language_model(WORDS, softmax=SOFTMAXES[softmax])
    nothing = {"tokens": WordIds(model.vocab).of_sentences([])}
    sentence = {"tokens": WordIds(model.vocab).of_sentences([["the", "fog"]])}
    assert "loss" not in model(**nothing)
    assert not model.perplexity.get_metric()
    model(**sentence)
    before = model.perplexity.get_metric()
    output = model.make_output_human_readable(model(**nothing))
    assert output["forward_log_probs"] == output["backward_log_probs"] == []
    assert model.perplexity.get_metric() == before and before["n_tokens"] == 3


def three_epochs(path: str, streams: Config) -> Config:
    """The config of three epochs of a tiny biLM: sampled softmax, clipped gradients, perplexity after each."""
    corpus = {"train_data_path": path, "validation_data_path": path}
    config = experiment(corpus, {**streams, "seed": 5}, softmax=SOFTMAXES["sampled"], dropout=0.0)
    config["trainer"] |= {
        "optimizer": {"type": "adagrad", "lr": 1.0, "initial_accumulator_value": 1.0},
        "grad_norm": 0.5,
        "learning_rate_scheduler": {"type": "warmup_cosine", "warmup_steps": 3},
        "validation_metric": "-perplexity",
    }
    return config


@pytest.mark.slow
def test_allennlp_trains_in_two_processes_what_it_trains_in_one(tmp_path: Path) -> None:
    path = write_shards(tmp_path)
    for name, streams in (("whole", WHOLE), ("half", HALF)):
        train.train_model(Params(three_epochs(path, streams)), str(tmp_path / name))
    both = {**three_epochs(path, HALF), "distributed": {"cuda_devices": [-1, -1]}}
    with patch.object(train.mp, "spawn", start_processes):
        train.train_model(Params(both), str(tmp_path / "both"), include_package=["elmo_plugin"])
    whole, half, found = (torch.load(tmp_path / name / "best.th") for name in ("whole", "half", "both"))
    torch.testing.assert_close(found, whole, atol=1e-5, rtol=0)
    assert (half["softmax.weight"] - whole["softmax.weight"]).abs().max() > 1e-2
    n_batches = len(build_loader(path, **WHOLE))
    assert n_batches >= 3 and found["softmax.n_draws"] == 3 * n_batches * 2  # epochs, batches, directions
    wanted, metrics = (json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("whole", "both"))
    reported = ["validation_perplexity", "validation_forward_perplexity", "validation_backward_perplexity"]
    for name in (*reported, "validation_oov_rate", "validation_n_tokens", "training_loss"):
        assert metrics[name] == pytest.approx(wanted[name], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("softmax", SOFTMAXES)
@pytest.mark.parametrize("keys", [BATCHES, HALF], ids=["sentence_batches", "unrolled_streams"])
def test_a_process_that_has_nothing_left_to_read_trains_on(keys: Config, softmax: str, tmp_path: Path) -> None:
    """A sentence is all that two processes have, so in every batch one of them has none."""
    path = write_shards(tmp_path, ["the fog"])
    config = three_epochs(path, keys)
    config["model"]["softmax"] = SOFTMAXES[softmax]
    config["trainer"]["learning_rate_scheduler"]["warmup_steps"] = 0.4
    config["vocabulary"] = {"type": "bilm-tf", "file": str(tmp_path / "words")}
    (tmp_path / "words").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    train.train_model(Params(deepcopy(config)), str(tmp_path / "alone"))
    with patch.object(train.mp, "spawn", start_processes):
        both = {**config, "distributed": {"cuda_devices": [-1, -1]}}
        train.train_model(Params(both), str(tmp_path / "both"), include_package=["elmo_plugin"])
    alone, found = (torch.load(tmp_path / name / "best.th") for name in ("alone", "both"))
    torch.testing.assert_close(found, alone, atol=1e-5, rtol=0)
