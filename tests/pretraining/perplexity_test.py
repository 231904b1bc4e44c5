"""Perplexity: the metrics of `allennlp evaluate` against values computed word by word, and how they are summed."""

import functools
import json
import math
from pathlib import Path
from typing import Any, Optional
from unittest.mock import Mock

import pytest
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.common.checks import ConfigurationError
from allennlp.models import load_archive

from elmo_plugin.checkpoints import convert, load_checkpoint
from elmo_plugin.pretraining import BidirectionalLanguageModel
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
from tests.oracles import options
from tests.task_oracles import TOWNS, allennlp, tagger, tags_reader, train
from tests.task_oracles import experiment as task_experiment

SENTENCES = [line.split() for line in HELDOUT]
SENTENCE_BATCHES = {"type": "sentence_batches", "max_tokens": 40, "max_sentence_length": 20}
STREAMS = {"type": "unrolled_streams", "streams": 2, "window": 4}
SAMPLED = {"type": "sampled", "n_samples": 5}
READING_WORDS = {"bilm": {"options": WORD_INPUT, "seed": 1}, "share_embedding_softmax": True}
MODELS: dict[str, tuple[Config, Config]] = {
    "full": (SENTENCE_BATCHES, {}),
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
    assert found.pop("loss") == pytest.approx(math.log(found["perplexity"]), rel=1e-6)
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    for part in ("validation", "best_validation"):
        assert metrics[f"{part}_loss"] == pytest.approx(math.log(metrics[f"{part}_perplexity"]), rel=1e-6)
    n_unknown = sum(word not in WORDS for sentence in SENTENCES for word in sentence)
    assert n_unknown == 5
    assert found == pytest.approx({**wanted, "oov_rate": n_unknown / wanted["n_tokens"]}, rel=1e-5)
    assert found["n_tokens"] == sum(len(sentence) + 1 for sentence in SENTENCES)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a language model of whole sentences for an epoch."""
    return train_and_load(tmp_path_factory.mktemp("run"), "full")[0]


@pytest.mark.slow
def test_evaluate_takes_a_bilm_without_an_archive_and_reads_long_sentences_whole(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A sentence of 30 words is split in two by the loader of the archive, which has its own `max_sentence_length`."""
    lines = [*HELDOUT, " ".join(WORDS[3:12] * 4)]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    convert(archive, tmp_path / "bilm.safetensors")
    allennlp("evaluate", tmp_path / "bilm.safetensors", tmp_path / "text.txt")
    printed = capsys.readouterr().out
    found = json.loads(printed[printed.rindex("{\n") :])
    model = load_archive(str(archive)).model
    wanted = perplexities([nats_by_hand(model, line.split()) for line in lines])  # type: ignore[arg-type]
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, rel=1e-5)
    assert found["loss"] == pytest.approx(math.log(found["perplexity"]), rel=1e-6)
    assert not [record for record in caplog.records if "max_sentence_length" in record.getMessage()]

    evaluate_from_archive(archive, str(tmp_path / "text.txt"))
    (warning,) = [record.getMessage() for record in caplog.records if "max_sentence_length" in record.getMessage()]
    assert "more than 20 tokens" in warning and "36" in warning
    with pytest.raises(ConfigurationError, match=r"bilm\.safetensors.*model archive for cmd_overrides"):
        allennlp("evaluate", tmp_path / "bilm.safetensors", tmp_path / "text.txt", "-o", "{'a': 1}")


@pytest.mark.parametrize(("n_unknown", "warns"), [(4, False), (5, True)])
def test_evaluate_warns_if_more_than_a_third_of_the_tokens_are_unknown(
    archive: Path, n_unknown: int, warns: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["zebra"] * n_unknown + ["the"] * (11 - n_unknown)  # the end of a sentence is predicted, too
    (tmp_path / "text.txt").write_text(" ".join(words) + "\n")
    convert(archive, tmp_path / "bilm.safetensors")
    for source in (archive, tmp_path / "bilm.safetensors"):
        allennlp("evaluate", source, tmp_path / "text.txt")
        printed = capsys.readouterr()
        assert json.loads(printed.out[printed.out.rindex("{\n") :])["oov_rate"] == pytest.approx(n_unknown / 12)
        assert ("warning: 42% of the tokens are not in the vocabulary" in printed.err) is warns


def test_evaluate_says_that_an_archive_reads_the_first_instances_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = task_experiment(
        tagger({"bilm": {"options": options().to_dict(), "seed": 0}}), tags_reader(max_instances=4), TOWNS
    )
    train(config, tmp_path / "run")
    for given, key, said in (
        ("{}", "dataset_reader", True),
        ('{"dataset_reader.max_instances": null}', "dataset_reader", False),
        (json.dumps({"validation_dataset_reader": tags_reader(max_instances=3)}), "validation_dataset_reader", True),
    ):
        capsys.readouterr()
        allennlp("evaluate", tmp_path / "run/model.tar.gz", TOWNS, "-o", given)
        lines = [line for line in capsys.readouterr().err.splitlines() if f"{key}.max_instances" in line]
        assert len(lines) == said
        assert not said or (f"first {3 if 'validation' in key else 4} " in lines[0] and str(TOWNS) in lines[0])


def test_a_tagger_that_diverges_ends_with_an_error_too(tmp_path: Path) -> None:
    model = tagger({"bilm": {"options": options().to_dict(), "seed": 0}})
    config = task_experiment(model, tags_reader(), TOWNS, optimizer={"type": "adam", "lr": 1e10}, num_epochs=3)
    with pytest.raises(ConfigurationError, match=r"diverged.* of epoch \d is .* at the learning rate 1e\+10"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run/model.tar.gz").exists()


def test_an_unfinished_run_is_named_as_such(tmp_path: Path) -> None:
    config = experiment(write_corpus(tmp_path), SENTENCE_BATCHES)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("allennlp.training.GradientDescentTrainer._train_epoch", Mock(side_effect=KeyboardInterrupt))
        train(config, tmp_path / "run")
    message = rf"the run in '{tmp_path}/run' is unfinished.*elmo-plugin train .*config.json -s {tmp_path}/run --recover"
    for source in ("run/model.tar.gz", "run"):
        with pytest.raises(ConfigurationError, match=message):
            allennlp("evaluate", tmp_path / source, tmp_path / "heldout.txt")
        with pytest.raises(ConfigurationError, match=message):
            load_checkpoint(tmp_path / source)

    (tmp_path / "run/model.tar.gz").touch()  # as in a finished run
    with pytest.raises(ConfigurationError, match=rf"the archive of .* is '{tmp_path}/run/model\.tar\.gz'"):
        load_checkpoint(tmp_path / "run/modle.tar.gz")


@pytest.mark.parametrize(("weights", "where"), [(math.nan, "batch 1 of epoch 1"), (None, "the validation")])
def test_a_run_that_diverges_ends_with_an_error_that_names_the_batch_and_the_learning_rate(
    weights: Optional[float], where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = experiment(write_corpus(tmp_path), SENTENCE_BATCHES)
    config["trainer"]["optimizer"] = {"type": "sgd", "lr": 0.25}
    if weights is not None:
        initialize = BidirectionalLanguageModel.__init__

        def spoiled(self: BidirectionalLanguageModel, *args: Any, **kwargs: Any) -> None:
            initialize(self, *args, **kwargs)
            self.softmax.bias.data[:8] = weights

        monkeypatch.setattr(BidirectionalLanguageModel, "__init__", functools.wraps(initialize)(spoiled))
    else:  # the last step of an epoch makes the weights infinite
        config["data_loader"]["batches_per_epoch"] = 1
        config["trainer"]["optimizer"]["lr"] = 1e38
    rate = "0.25" if weights is not None else r"1e\+38"
    with pytest.raises(ConfigurationError, match=rf"diverged.*{where}.* at the learning rate {rate}"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run/model.tar.gz").exists()
