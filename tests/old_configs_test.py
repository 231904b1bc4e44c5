"""The page about configs from before AllenNLP 1.0: its last config trains; an old key is an error that names it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _jsonnet
import pytest
from allennlp.commands.train import train_model
from allennlp.common import Params

from elmo_plugin.commands import console
from tests.pages import blocks

for name in ("tagging", "pair_classification"):
    pytest.importorskip(f"allennlp_models.{name}", reason="allennlp-models is not installed; `make setup` installs it")

PAGE = Path(__file__).resolve().parents[1] / "docs/guides/old-configs.md"
SENTENCES = """-DOCSTART- -X- -X- O

Mira NNP B-NP B-PER
Vale NNP I-NP I-PER
waves VBZ B-VP O

Ann NNP B-NP B-PER
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The config at which the page arrives, with a smaller biLM and encoder."""
    monkeypatch.chdir(tmp_path)
    for name in ("train.txt", "dev.txt"):
        Path(name).write_text(SENTENCES, encoding="utf-8")
    _, after = (block.text for block in blocks(PAGE) if block.language == "jsonnet")
    config: dict[str, Any] = json.loads(_jsonnet.evaluate_snippet("page", after))
    config["model"]["text_field_embedder"]["token_embedders"]["elmo"] = {"type": "elmo", "bilm": "english-tiny"}
    config["model"]["encoder"] |= {"input_size": 50 + 512 + 128, "hidden_size": 5}
    config["trainer"] |= {"num_epochs": 1, "cuda_device": -1}
    return config


@pytest.mark.slow
def test_the_config_after_trains(config: dict[str, Any]) -> None:
    train_model(Params(config), "run", return_model=False)
    assert "best_validation_f1-measure-overall" in json.loads(Path("run/metrics.json").read_text())


def iterator(config: dict[str, Any]) -> None:
    config["iterator"] = config.pop("data_loader")


def sorting_keys(config: dict[str, Any]) -> None:
    config["data_loader"]["batch_sampler"]["sorting_keys"] = [["tokens", "num_tokens"]]


def token_embedders(config: dict[str, Any]) -> None:
    config["model"]["text_field_embedder"] = config["model"]["text_field_embedder"]["token_embedders"]


def regexes(config: dict[str, Any]) -> None:
    config["model"]["regularizer"] = config["model"]["regularizer"]["regexes"]


def constraint_type(config: dict[str, Any]) -> None:
    config["model"]["constraint_type"] = config["model"].pop("label_encoding")


def vocab_namespace(config: dict[str, Any]) -> None:
    del config["model"]["text_field_embedder"]["token_embedders"]["token_characters"]["embedding"]["vocab_namespace"]


def key_of_trainer(config: dict[str, Any]) -> None:
    config["trainer"]["num_serialized_models_to_keep"] = 3


def key_of_checkpointer(config: dict[str, Any]) -> None:
    config["trainer"]["checkpointer"] = {"num_serialized_models_to_keep": 3}


def lazy(config: dict[str, Any]) -> None:
    config["dataset_reader"]["lazy"] = True


def similarity_function(config: dict[str, Any]) -> None:
    encoder, embedder = config["model"]["encoder"], config["model"]["text_field_embedder"]
    layer = {"input_dim": 10, "num_layers": 1, "hidden_dims": 5, "activations": "relu"}
    config["model"] = {
        **{"type": "esim", "text_field_embedder": embedder, "encoder": encoder, "inference_encoder": encoder},
        **{"similarity_function": {"type": "dot_product"}, "projection_feedforward": layer},
        **{"output_feedforward": layer, "output_logit": layer},
    }


def multilang(config: dict[str, Any]) -> None:
    embedders = config["model"]["text_field_embedder"]["token_embedders"]
    embedders["elmo"] = {"type": "elmo_token_embedder_multilang", "options_files": {}, "weight_files": {}}


def cuda_device(config: dict[str, Any]) -> None:
    config["trainer"]["cuda_device"] = [-1]


def no_crf(config: dict[str, Any]) -> None:
    model = config["model"]
    keys = ("label_encoding", "text_field_embedder", "encoder")
    bias = {"regexes": [["tag_projection_layer.*", {"type": "constant", "val": 0}]]}  # so all tags are the first, B-PER
    config["model"] = {
        **{"type": "simple_tagger", "calculate_span_f1": True, "initializer": bias},
        **{key: model[key] for key in keys},
    }


@pytest.mark.parametrize(
    ("make_older", "message"),
    [
        (iterator, "'iterator': expected a key"),
        (sorting_keys, "sorting_keys': expected"),
        (token_embedders, "expected a key of BasicTextFieldEmbedder (token_embedders)"),
        (regexes, "'model.regularizer': expected an object"),
        (constraint_type, "'model.constraint_type': expected a key"),
        (vocab_namespace, "index out of range in self"),
        (key_of_trainer, "'trainer.num_serialized_models_to_keep': expected a key"),
        (key_of_checkpointer, "'trainer.checkpointer.num_serialized_models_to_keep': expected a key"),
        (lazy, "'dataset_reader.lazy': expected a key"),
        (similarity_function, "'model.similarity_function': expected a key"),
        (multilang, "got 'elmo_token_embedder_multilang'"),
        (cuda_device, "'trainer.cuda_device': expected a whole number or null, got ["),
        (no_crf, "B-PER"),
    ],
)
def test_an_old_key_is_an_error_that_names_the_page(
    make_older: Callable[[dict[str, Any]], None], message: str, config: dict[str, Any]
) -> None:
    make_older(config)
    with pytest.raises(Exception) as caught:
        train_model(Params(config), "run", return_model=False)
    printed = console.with_hint(caught.value)
    assert message in printed and message in PAGE.read_text(encoding="utf-8")
    if make_older not in (token_embedders, vocab_namespace):  # one names the key, the other comes from PyTorch
        assert console.is_users_mistake(caught.value) and f"see {PAGE}" in printed
