"""Every pretraining config: built, and some trained for one step, on a made-up text, with a shrunken model."""

import json
from math import inf
from pathlib import Path
from typing import Any

import pytest
from allennlp.commands.train import train_model
from allennlp.common import Params

from elmo_plugin.bilm import BiLM, BiLMOptions

FOLDER = Path(__file__).parent.parent / "training_configs/pretrain"
CONFIGS = sorted(FOLDER.rglob("*.jsonnet"))
SYSTEMS = sorted(FOLDER.parent.glob("systems/*/pretrain.jsonnet"))
TRAINED = ("bilm_tiny", "bilm_original", "bilm_words", "muon", "transformer")
FLOAT32 = ("bilm_original", "fine_tune", "small_text", "small_text_from", "small_text_wide")
N_WORDS = 1200
SHRUNKEN = {
    "lstm": {"dim": 24, "projection_dim": 16, "n_layers": 2, "use_skip_connections": True},
    "char_cnn": {"embedding": {"dim": 4}, "filters": [[1, 4], [2, 8]], "n_highway": 1},
}
SOFTMAXES: dict[str, dict[str, Any]] = {"sampled": {"n_samples": 20}, "adaptive": {"cutoffs": [50, 300]}, "full": {}}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a text of a dozen words in a sentence, each word twice."""
    path = tmp_path_factory.mktemp("text") / "shard.txt"
    words = [f"w{number}" for number in range(N_WORDS)]
    path.write_text(2 * "".join(" ".join(words[start : start + 12]) + "\n" for start in range(0, N_WORDS, 12)))
    return path


def params_of(path: Path, text: Path) -> dict[str, Any]:
    """Return a config for this text, whose softmax fits few words."""
    variables = {"LM_TRAIN": str(text), "LM_HELDOUT": str(text), "ELMO_BILM": "english-tiny"}
    few: dict[str, Any] = {"data_loader.batches_per_epoch": 1, "trainer.num_epochs": 1}
    params: dict[str, Any] = Params.from_file(str(path), json.dumps(few), variables).as_dict(quiet=True)
    softmax = params["model"].get("softmax")
    if softmax:
        softmax |= SOFTMAXES[softmax["type"]]
    return params


def run(path: Path, text: Path, folder: Path, train: bool) -> None:
    """Build what a config names, and train it for one batch."""
    params = params_of(path, text)
    params["trainer"].pop("learning_rate_scheduler", None)
    options = params["model"]["bilm"].get("options")
    if "contextualizer" in params["model"]:  # it has the sizes of its config
        pytest.importorskip("allennlp_models.lm")
    elif options is not None:
        options.update({block: SHRUNKEN[block] for block in options})
    for loader in (params["data_loader"], params["validation_data_loader"]):
        loader.update({"streams": 4, "window": 5} if loader["type"] == "unrolled_streams" else {"max_tokens": 500})
    train_model(Params(params), str(folder), dry_run=not train)


@pytest.mark.slow
@pytest.mark.parametrize("path", [*CONFIGS, *SYSTEMS], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_config_is_built_and_trains_one_step(path: Path, text: Path, tmp_path: Path) -> None:
    run(path, text, tmp_path / "run", train=path.stem in TRAINED)
    if path.stem in TRAINED:
        metrics = json.loads((tmp_path / "run/metrics.json").read_text())
        assert 1 < metrics["validation_forward_perplexity"] < inf
        assert metrics["validation_n_tokens"] == 2 * (N_WORDS + N_WORDS / 12)


@pytest.mark.parametrize("name", ["lstm", "transformer", "gated_cnn"])
def test_contextualizers_are_compared_with_as_many_weights(name: str) -> None:
    pytest.importorskip("allennlp_models.lm")
    model = params_of(FOLDER / f"contextualizers/{name}.jsonnet", Path("somewhere"))["model"]
    options = BiLMOptions.from_dict({**model["bilm"]["options"], "contextualizer": model.get("contextualizer")})
    n_weights = sum(weight.numel() for weight in BiLM(options).lstm.parameters())
    assert n_weights == pytest.approx(1_183_744, rel=0.005)


@pytest.mark.slow
@pytest.mark.parametrize("path", [*CONFIGS, *SYSTEMS], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_config_asks_no_processor_for_what_it_may_not_have(path: Path) -> None:
    precision = params_of(path, Path("somewhere"))["model"]["precision"]
    assert precision == ("float32" if path.stem in FLOAT32 else "auto")
