"""From text to an archive, and from the archive, without the text, to everything that reads a biLM."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.models import load_archive
from allennlp.modules import TokenEmbedder
from allennlp.modules.elmo import Elmo as ReferenceElmo
from torch import Tensor

import elmo_plugin
from elmo_plugin.bilm import BiLM, BiLMOptions
from elmo_plugin.checkpoints import Checkpoint, build_bilm, convert, load_checkpoint
from elmo_plugin.pretraining import BidirectionalLanguageModel
from elmo_plugin.text import batch_to_ids
from tests.language_model_oracles import (
    CHARACTERS,
    HELDOUT,
    Config,
    experiment,
    language_model,
    write_corpus,
)
from tests.oracles import SENTENCES, reference_layers
from tests.task_oracles import train

STREAMS = {"type": "unrolled_streams", "streams": 2, "window": 4}
FEEDFORWARD = {"input_dim": 8, "num_layers": 1, "hidden_dims": 16}
ELMO_LSTM = {"type": "elmo_lstm", "input_size": 8, "hidden_size": 8, "cell_size": 24, "num_layers": 2}


class Run(NamedTuple):
    """A language model at the end of training, its best perplexity, and the path of its archive."""

    model: BidirectionalLanguageModel
    perplexity: float
    archive: Path
    heldout: Path


def pretrain(folder: Path, batches: Config, **model: object) -> Run:
    """Train, delete the text, and evaluate and embed with the archive."""
    corpus = write_corpus(folder)
    trained = train(experiment(corpus, batches, **model), folder / "run")
    assert isinstance(trained, BidirectionalLanguageModel)
    for path in corpus.values():
        Path(path).unlink()
    (folder / "kept.txt").write_text("\n".join(HELDOUT) + "\n", encoding="utf-8")
    metrics = json.loads((folder / "run/metrics.json").read_text(encoding="utf-8"))
    (folder / "run/model.tar.gz").rename(folder / "moved.tar.gz")
    return Run(trained.eval(), metrics["best_validation_perplexity"], folder / "moved.tar.gz", folder / "kept.txt")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Train a model that reads characters."""
    return pretrain(tmp_path_factory.mktemp("run"), STREAMS)


def layers(bilm: BiLM, ids: Tensor) -> Tensor:
    """Return all layers (L, B, T + 2, D), zero beyond the end of a sentence."""
    output = bilm(ids)
    return output.layers * output.mask[None, ..., None]


def assert_evaluates_to_its_best(run: Run) -> None:
    """Check that the archive has the best perplexity of the run."""
    found = evaluate_from_archive(run.archive, str(run.heldout))
    assert found["perplexity"] == pytest.approx(run.perplexity, rel=1e-6)


def embedder(run: Run, mix: str) -> TokenEmbedder:
    """Return ELMo with the biLM of the archive."""
    config = {"type": "elmo", "bilm": {"pretrained": str(run.archive)}, "mix": mix, "dropout": 0.0}
    return TokenEmbedder.from_params(Params(config)).eval()


@pytest.mark.slow
def test_the_archive_has_the_best_perplexity_of_the_run(run: Run) -> None:
    assert_evaluates_to_its_best(run)
    loaded = load_archive(str(run.archive)).model.state_dict()
    for name, value in run.model.state_dict().items():
        assert torch.equal(loaded[name], value), name


def test_it_plugs_into_elmo_with_the_layers_that_were_trained(run: Run) -> None:
    elmo = embedder(run, "concatenate")
    ids = batch_to_ids(SENTENCES)
    found = elmo(ids)  # (B, T, L·D)
    wanted = torch.cat(layers(run.model.bilm, ids).unbind(), dim=-1)[:, 1:-1]  # (B, T, L·D)
    for row, sentence in enumerate(SENTENCES):
        torch.testing.assert_close(found[row, : len(sentence)], wanted[row, : len(sentence)])


def test_exported_to_bilm_tf_it_answers_the_same_in_allennlps_elmo(run: Run, tmp_path: Path) -> None:
    convert(run.archive, tmp_path)
    reference = ReferenceElmo(str(tmp_path / "options.json"), str(tmp_path / "weights.hdf5"), 1, dropout=0.0)
    ids = batch_to_ids(SENTENCES)
    wanted = layers(run.model.bilm, ids)
    mask = wanted.any(dim=-1, keepdim=True)
    torch.testing.assert_close(reference_layers(reference, ids) * mask, wanted, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["archive", "bilm_tf"])
def test_fine_tuning_starts_where_training_ended(run: Run, tmp_path: Path, form: str) -> None:
    """It takes the biLM and, from formats that hold them, the softmax and the vocabulary."""
    source = run.archive
    if form != "archive":
        source = tmp_path / "bilm_tf"
        convert(run.archive, source)
    corpus = write_corpus(tmp_path)
    with Path(corpus["train_data_path"]).open("a") as text:
        text.write("words unheard-of\n")
    config = experiment(corpus, STREAMS)
    config["vocabulary"] = {"type": "pretrained_bilm", "pretrained": str(source), "files": corpus["train_data_path"]}
    config["model"] = {"type": "bilm", "bilm": {"pretrained": str(source)}, "dropout": 0.0}
    config["trainer"] |= {"num_epochs": 1, "optimizer": {"type": "sgd", "lr": 0.0}}
    model = train(config, tmp_path / "run")
    for name, value in run.model.state_dict().items():
        if form != "bilm_tf" or name.startswith("bilm."):
            assert name.endswith("_extra_state") or torch.equal(model.state_dict()[name], value), name
    if form == "archive":
        found = evaluate_from_archive(tmp_path / "run/model.tar.gz", corpus["validation_data_path"])
        assert found["perplexity"] == pytest.approx(run.perplexity, rel=1e-6)


BATCHES = {"type": "sentence_batches", "max_tokens": 40, "max_sentence_length": 20}
GRU = {"type": "gru", "input_size": 8, "hidden_size": 8, "bidirectional": True}
TRANSFORMER = {"type": "bidirectional_language_model_transformer", "input_dim": 8, "hidden_dim": 16, "num_layers": 2}


@pytest.mark.slow
@pytest.mark.parametrize("contextualizer", [GRU, TRANSFORMER], ids=["gru", "transformer"])
def test_a_contextualizer_of_another_kind_is_a_bilm_like_any_other(
    tmp_path: Path, contextualizer: dict[str, Any]
) -> None:
    if contextualizer is TRANSFORMER:
        pytest.importorskip("allennlp_models.lm")
    run = pretrain(tmp_path, BATCHES, contextualizer=contextualizer)
    assert_evaluates_to_its_best(run)
    elmo, ids = embedder(run, "concatenate"), batch_to_ids(SENTENCES)
    layers = run.model.bilm(ids).layers  # (2, B, T + 2, 2P)
    assert len(layers) == 2
    mask = (ids > 0).any(dim=-1)  # (B, T)
    expected = torch.cat([*layers], dim=-1)[:, 1:-1] * mask.unsqueeze(-1)
    torch.testing.assert_close(elmo(ids), expected)
    torch.testing.assert_close(elmo(ids[:1]), expected[:1], rtol=1e-4, atol=1e-5)  # alone as in the batch

    convert(run.archive, tmp_path / "native.safetensors")
    again = build_bilm(load_checkpoint(tmp_path / "native.safetensors")).eval()
    assert torch.equal(again(ids).layers, layers)
    with pytest.raises(ConfigurationError, match="bilm-tf"):
        convert(run.archive, tmp_path / "bilm_tf")
    with pytest.raises(ConfigurationError, match="'initial_state'"):
        convert(run.archive, tmp_path / "warm.safetensors", warm_on=run.heldout)


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_a_contextualizer_elmo_lstm_sets_the_layers_of_the_bilm(n_layers: int, tmp_path: Path) -> None:
    run = pretrain(tmp_path, BATCHES, contextualizer={**ELMO_LSTM, "num_layers": n_layers})
    assert_evaluates_to_its_best(run)
    loaded = elmo_plugin.load(run.archive, mix="all")
    assert loaded.shape[0] == n_layers + 1
    for found, sentence in zip(loaded.embed(SENTENCES), SENTENCES, strict=True):
        assert found.shape == (n_layers + 1, len(sentence), 16)


@pytest.mark.parametrize("changes", [{"hidden_size": 6}, {"input_size": 6}, {"cell_size": 4}])
def test_a_contextualizer_of_another_width_is_refused_before_training(changes: Config) -> None:
    with pytest.raises(ConfigurationError, match="'contextualizer'"):
        language_model(contextualizer={**ELMO_LSTM, **changes})


def test_a_contextualizer_among_the_options_is_checked_too_and_can_be_replaced() -> None:
    with pytest.raises(ConfigurationError, match=r"'contextualizer'.*leaks"):
        language_model(bilm={"options": {**CHARACTERS, "contextualizer": {**GRU, "num_layers": 2}}})
    kept = language_model(bilm={"options": {**CHARACTERS, "contextualizer": GRU}})
    assert kept.bilm.options.contextualizer == GRU and kept.bilm.options.num_layers == 2
    replaced = language_model(bilm={"options": {**CHARACTERS, "contextualizer": GRU}}, contextualizer=ELMO_LSTM)
    assert replaced.bilm.options.contextualizer is None and replaced.bilm.options.num_layers == 3


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"type": "os.path.Join"}, "os.path.Join"),
        ({"type": "compose", "encoders": [{"type": "subprocess.Popen"}]}, "subprocess.Popen"),
        ({"type": "feedforward", "feedforward": {"_pretrained": {"archive_file": "x.tar.gz"}}}, "_pretrained"),
        ({"type": "feedforward", "feedforward": {**FEEDFORWARD, "activations": "os.path.Join"}}, "os.path.Join"),
        ({**GRU, "hidden_size": 10**7}, "output size"),
        ({**GRU, "num_layers": 9}, "no such tensor"),
    ],
)
def test_a_file_cannot_name_a_contextualizer_that_is_dangerous_or_of_another_size(
    config: dict[str, Any], message: str
) -> None:
    options = BiLMOptions.from_dict({**CHARACTERS, "contextualizer": config})
    with pytest.raises(ConfigurationError, match=message):
        build_bilm(Checkpoint(options, {}))
