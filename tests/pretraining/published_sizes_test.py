"""The published architectures, built from their own configs: each shape on the way, every weight counted, two steps.

What is counted is the biLM: character embeddings, convolutions, highways, projection, the LSTMs of both directions; not
the softmax that pretraining puts over it, nor the mixes that a task does.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.data import DataLoader, DatasetReader, Vocabulary
from allennlp.models import Model
from allennlp.training import Trainer

from elmo_plugin.bilm import BiLM, BiLMOptions
from elmo_plugin.bilm.character_encoder import CharacterEncoder
from elmo_plugin.elmo import Elmo, ScalarMix
from elmo_plugin.pretraining import BidirectionalLanguageModel
from elmo_plugin.text import batch_to_ids

CONFIGS = Path(__file__).parents[2] / "training_configs/pretrain"
SIZES = {"small": (1024, 128, 1), "medium": (2048, 256, 1), "original": (4096, 512, 2)}
"""H, P and highways. Source: Peters et al. 2018 §3.4, and the options files beside the published weights."""
COUNTS = {"small": 13_593_312, "medium": 28_027_744, "original": 93_600_864}
FILTERS = [(1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)]
SENTENCES = [["The", "ferry", "left"], ["Go"]]
B, T, C, L = 2, 3, 50, 3
EACH_SIZE = pytest.mark.parametrize(
    "name", ["small", *(pytest.param(name, marks=pytest.mark.slow) for name in ("medium", "original"))]
)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write lines with more words than the largest vocabulary that a config is reduced to here."""
    path = tmp_path_factory.mktemp("text") / "shard.txt"
    path.write_text("".join(f"w{number} w{number + 1} w{number % 7} .\n" for number in range(0, 300, 2)))
    return path


def params_of(name: str, text: Path) -> dict[str, Any]:
    """Return a config with a small text, a small vocabulary and small batches."""
    variables = {"LM_TRAIN": str(text), "LM_HELDOUT": str(text)}
    few = {"data_loader.batches_per_epoch": 2, "trainer.num_epochs": 1, "vocabulary.max_size": 200}
    params: dict[str, Any] = Params.from_file(
        str(CONFIGS / f"bilm_{name}.jsonnet"), json.dumps(few), variables
    ).as_dict(quiet=True)
    loader, softmax = params["data_loader"], params["model"]["softmax"]
    loader |= {"streams": 3, "window": 4} if "streams" in loader else {"max_tokens": 12, "max_sentence_length": 8}
    softmax |= {"n_samples": 20} if softmax["type"] == "sampled" else {"cutoffs": [20, 100]}
    return params


def options_of(name: str, text: Path) -> BiLMOptions:
    """Return the sizes in a config."""
    return BiLMOptions.from_dict(params_of(name, text)["model"]["bilm"]["options"])


def count_by_hand(cell: int, width: int, n_highway: int) -> int:
    """Count the weights of the published architecture, matrix by matrix, from the paper's description."""
    n_filters = sum(channels for _, channels in FILTERS)
    characters = 262 * 16 + sum((window * 16 + 1) * channels for window, channels in FILTERS)
    highways = n_highway * 2 * (n_filters + 1) * n_filters
    projection = (n_filters + 1) * width
    lstm = 4 * cell * (2 * width + 1) + cell * width
    return characters + highways + projection + 2 * 2 * lstm


@pytest.mark.parametrize("name", SIZES)
def test_every_weight_is_counted(name: str, text: Path) -> None:
    with torch.device("meta"):
        bilm = BiLM(options_of(name, text))
    assert (bilm.options.lstm.cell_clip, bilm.options.lstm.projection_clip) == (3, 3)
    assert bilm.options.lstm.use_skip_connections
    assert sum(weight.numel() for weight in bilm.parameters()) == COUNTS[name] == count_by_hand(*SIZES[name])


@EACH_SIZE
def test_each_shape_on_the_way_is_the_published_one(name: str, text: Path) -> None:
    cell, width, n_highway = SIZES[name]
    bilm = BiLM(options_of(name, text))
    encoder = bilm.token_encoder
    assert isinstance(encoder, CharacterEncoder)
    elmo = Elmo.from_parts(bilm, [ScalarMix(L, 2 * width)], dropout=0.0)
    ids = batch_to_ids(SENTENCES)  # (B, T, C)
    assert ids.shape == (B, T, C)
    with torch.no_grad():
        assert encoder(encoder.fit(ids)).shape == (B, T, width)
        output = bilm(ids)
        assert elmo(ids).representations[0].shape == (B, T, 2 * width)
    assert output.layers.shape == (L, B, T + 2, 2 * width)  # <S> and </S> in it
    assert [tuple(part.shape) for part in output.state] == [(2, 2, B, width), (2, 2, B, cell)]
    convolutions = [(conv.in_channels, conv.out_channels, *conv.kernel_size) for conv in encoder.convolutions]
    assert convolutions == [(16, channels, window) for window, channels in FILTERS]
    assert [layer.in_features for layer in encoder.highways._layers] == [2048] * n_highway


@EACH_SIZE
def test_it_trains_two_steps(name: str, text: Path) -> None:
    """Train as the config says, but write nothing."""
    params = params_of(name, text)
    model = Model.from_params(Params(params["model"]), vocab=Vocabulary.from_params(Params(params["vocabulary"])))
    assert isinstance(model, BidirectionalLanguageModel)
    before = {name: weight.detach().clone() for name, weight in model.bilm.named_parameters()}
    reader = DatasetReader.from_params(Params(params["dataset_reader"]))
    loader = DataLoader.from_params(Params(params["data_loader"]), reader=reader, data_path=params["train_data_path"])
    loader.index_with(model.vocab)
    trainer = {**params["trainer"], "callbacks": None, "checkpointer": None, "cuda_device": -1}
    if "learning_rate_scheduler" in trainer:
        trainer["learning_rate_scheduler"]["warmup_steps"] = 1
    built = Trainer.from_params(Params(trainer), serialization_dir=None, model=model, data_loader=loader)
    metrics = built.train()
    assert metrics["training_loss"] > 0 and metrics["epoch"] == 0
    for name, weight in model.bilm.named_parameters():
        assert weight.isfinite().all() and not torch.equal(weight, before[name]), name
