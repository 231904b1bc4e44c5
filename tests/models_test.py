"""ELMo at both ends of the models of allennlp-models, by config alone (`training_configs/models`)."""

import importlib
import json
from pathlib import Path
from typing import Any

import _jsonnet
import pytest
import torch
from allennlp.commands.train import TrainModel
from allennlp.common import Params
from allennlp.common.util import prepare_environment
from allennlp.models import Model
from torch import Tensor, nn

from elmo_plugin.elmo import ElmoEnhancedEncoder, ElmoTokenEmbedder

ROOT = Path(__file__).parent.parent
CONFIGS = sorted((ROOT / "training_configs/models").glob("*.jsonnet"))
FAST = ("bcn", "crf_tagger")
each_config = pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem, marks=() if path.stem in FAST else pytest.mark.slow) for path in CONFIGS]
)


@pytest.fixture(scope="module", autouse=True)
def _models() -> None:
    """Import the models, which takes seconds, in the process that trains them."""
    pytest.importorskip("allennlp_models", reason="allennlp-models is not installed; `make setup` installs it")
    for task in ("classification", "coref", "pair_classification", "rc", "structured_prediction", "tagging"):
        importlib.import_module(f"allennlp_models.{task}")


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def job(path: Path, folder: Path, changes: str = "{}") -> TrainModel:
    """Build what `allennlp train` builds from a config with `changes` in jsonnet, for one epoch."""
    changed = _jsonnet.evaluate_snippet(
        "changed", f"(import '{path}') + {changes} + {{ trainer+: {{ num_epochs: 1 }} }}"
    )
    params = Params(json.loads(changed))
    prepare_environment(params)  # seeds
    return TrainModel.from_params(params, serialization_dir=str(folder), local_rank=0)


def only(kind: type[nn.Module], model: Model) -> Any:
    """Return the only part of a model that is a `kind`."""
    (found,) = (part for part in model.modules() if isinstance(part, kind))
    return found


def embedded_and_arrived(model: Model) -> tuple[list[Tensor], list[Tensor]]:
    """Return lists that a run fills: the layers (B, T, L·D) that `elmo` returns and that `elmo_enhanced` gets."""
    embedded: list[Tensor] = []
    arrived: list[Tensor] = []
    embedder, encoder = only(ElmoTokenEmbedder, model), only(ElmoEnhancedEncoder, model)
    embedder.register_forward_hook(lambda module, inputs, output: embedded.append(output))
    encoder.register_forward_pre_hook(
        lambda module, inputs: arrived.append(inputs[0][..., : encoder.num_elmo_layers * encoder.layer_dim])
    )
    return embedded, arrived


@pytest.mark.slow
@each_config
def test_a_model_is_trained_with_elmo_at_both_ends_of_its_rnn(path: Path, tmp_path: Path) -> None:
    training = job(path, tmp_path)
    encoder = only(ElmoEnhancedEncoder, training.model)
    mixes = {end: [*mix.parameters()] for end, mix in (("in", encoder.input_mix), ("out", encoder.output_mix))}
    before = {end: [weight.clone() for weight in weights] for end, weights in mixes.items()}
    embedded, arrived = embedded_and_arrived(training.model)
    metrics = training.run()
    assert metrics["training_loss"] > 0 and metrics["validation_loss"] > 0
    for end, weights in mixes.items():
        assert weights and not any(torch.equal(old, new) for old, new in zip(before[end], weights, strict=True))
    assert arrived and all(torch.equal(*pair) for pair in zip(embedded, arrived, strict=True))
    if path.stem == "bcn":  # the layer before its encoder is an identity, and stays one
        (layer,) = training.model._pre_encode_feedforward._linear_layers
        assert torch.equal(layer.weight, torch.eye(len(layer.weight))) and not layer.bias.any()


@each_config
@pytest.mark.parametrize("end", ["input", "output"])
def test_one_end_and_another_bilm_are_a_field_away(path: Path, end: str, tmp_path: Path) -> None:
    bilms = ROOT / "training_configs/lib/bilms.libsonnet"
    training = job(path, tmp_path, f"{{ elmo_at:: ['{end}'], bilm:: (import '{bilms}').tiny }}")
    encoder = only(ElmoEnhancedEncoder, training.model)
    assert [encoder.input_mix is not None, encoder.output_mix is not None] == [end == "input", end == "output"]


@each_config
def test_the_baseline_without_elmo_is_a_field_away(path: Path, tmp_path: Path) -> None:
    training = job(path, tmp_path, "{ bilm:: null }")
    assert not any(isinstance(part, ElmoEnhancedEncoder | ElmoTokenEmbedder) for part in training.model.modules())
