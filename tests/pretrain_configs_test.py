"""Every pretraining config: built, and some trained for one step, on a made-up text, with a shrunken model."""

import json
from math import inf
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params

from elmo_plugin.bilm import BiLM, BiLMOptions
from elmo_plugin.checkpoints import load_checkpoint

FOLDER = Path(__file__).parent.parent / "training_configs/pretrain"
CONFIGS = sorted(FOLDER.rglob("*.jsonnet"))
SYSTEMS = sorted(FOLDER.parent.glob("systems/*/pretrain.jsonnet"))
TRAINED = ("bilm_tiny", "bilm_original", "bilm_words", "muon", "transformer")
START_FROM_A_TRAINED_ONE = ("fine_tune", "bilm_tiny_longer")
N_WORDS = 1200
SHRUNKEN = {
    "lstm": {"dim": 24, "projection_dim": 16, "n_layers": 2, "use_skip_connections": True},
    "char_cnn": {"embedding": {"dim": 4}, "filters": [[1, 4], [2, 8]], "n_highway": 1},
}
SOFTMAXES: dict[str, dict[str, Any]] = {"sampled": {"n_samples": 20}, "adaptive": {"cutoffs": [50, 300]}, "full": {}}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a text of a dozen words in a sentence."""
    path = tmp_path_factory.mktemp("text") / "shard.txt"
    words = [f"w{number}" for number in range(N_WORDS)]
    path.write_text("".join(" ".join(words[start : start + 12]) + "\n" for start in range(0, N_WORDS, 12)))
    return path


def params_of(path: Path, text: Path, bilm: str = "english-tiny") -> dict[str, Any]:
    """Return a config for this text, whose softmax fits few words."""
    variables = {"LM_TRAIN": str(text), "LM_HELDOUT": str(text), "ELMO_BILM": bilm}
    few: dict[str, Any] = {"data_loader.batches_per_epoch": 1, "trainer.num_epochs": 1}
    params: dict[str, Any] = Params.from_file(str(path), json.dumps(few), variables).as_dict(quiet=True)
    softmax = params["model"].get("softmax")
    if softmax:
        softmax |= SOFTMAXES[softmax["type"]]
    return params


def run(path: Path, text: Path, folder: Path, train: bool = True, **variables: str) -> None:
    """Build what a config names, and train it for one batch."""
    params = params_of(path, text, **variables)
    params["trainer"].pop("learning_rate_scheduler", None)
    options = params["model"]["bilm"].get("options")
    if "contextualizer" in params["model"]:  # it has the sizes of its config
        pytest.importorskip("allennlp_models.lm")
    elif options is not None:
        options.update({block: SHRUNKEN[block] for block in options})
    for loader in (params["data_loader"], params["validation_data_loader"]):
        loader.update({"streams": 4, "window": 5} if loader["type"] == "unrolled_streams" else {"max_tokens": 500})
    train_model(Params(params), str(folder), dry_run=not train)


@pytest.mark.parametrize(
    "path",
    [path for path in [*CONFIGS, *SYSTEMS] if path.stem not in START_FROM_A_TRAINED_ONE],
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_a_config_is_built_and_trains_one_step(path: Path, text: Path, tmp_path: Path) -> None:
    run(path, text, tmp_path / "run", train=path.stem in TRAINED)
    if path.stem in TRAINED:
        metrics = json.loads((tmp_path / "run/metrics.json").read_text())
        assert 1 < metrics["validation_forward_perplexity"] < inf
        assert metrics["validation_n_tokens"] == N_WORDS + N_WORDS / 12


@pytest.fixture(scope="module")
def tiny(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train the config `bilm_tiny`."""
    folder = tmp_path_factory.mktemp("tiny") / "run"
    run(FOLDER / "bilm_tiny.jsonnet", text, folder)
    return folder / "model.tar.gz"


@pytest.mark.parametrize("name", START_FROM_A_TRAINED_ONE)
def test_training_further_keeps_softmax_and_vocabulary(name: str, tiny: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.txt"
    few.write_text("w1 w2 w3 unheard-of\n" * 40)
    run(FOLDER / f"{name}.jsonnet", few, tmp_path / "run", bilm=str(tiny))
    first, second = load_checkpoint(tiny), load_checkpoint(tmp_path / "run/model.tar.gz")
    assert first.vocabulary == second.vocabulary
    assert first.softmax is not None and second.softmax is not None
    assert first.softmax.config == second.softmax.config
    head = "adaptive.head.weight"
    for key, value in first.softmax.state_dict.items():
        change = (second.softmax.state_dict[key] - value).abs().max()
        assert change < 0.01, key  # one step of Adam's, none where no word was
    assert not torch.equal(second.softmax.state_dict[head], first.softmax.state_dict[head])


@pytest.mark.parametrize("name", ["lstm", "transformer", "gated_cnn"])
def test_contextualizers_are_compared_with_as_many_weights(name: str) -> None:
    pytest.importorskip("allennlp_models.lm")
    model = params_of(FOLDER / f"contextualizers/{name}.jsonnet", Path("somewhere"))["model"]
    options = BiLMOptions.from_dict({**model["bilm"]["options"], "contextualizer": model.get("contextualizer")})
    n_weights = sum(weight.numel() for weight in BiLM(options).lstm.parameters())
    assert n_weights == pytest.approx(1_183_744, rel=0.005)


@pytest.mark.parametrize("path", [*CONFIGS, *SYSTEMS], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_config_asks_no_processor_for_what_it_may_not_have(path: Path) -> None:
    precision = params_of(path, Path("somewhere"))["model"]["precision"]
    assert precision == ("float32" if path.stem in ("bilm_original", "fine_tune") else "auto")
