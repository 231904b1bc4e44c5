"""Every pretraining config: one step on a made-up text, its model shrunken. See also `published_sizes_test.py`."""

import json
import random
from math import inf
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.models import Model

from elmo_plugin.bilm import BiLM, BiLMOptions
from elmo_plugin.checkpoints import load_checkpoint
from elmo_plugin.pretraining.vocabulary import WordIds

FOLDER = Path(__file__).parent.parent / "training_configs/pretrain"
CONFIGS = sorted(FOLDER.rglob("*.jsonnet"))
SYSTEMS = sorted(FOLDER.parent.glob("systems/*/pretrain.jsonnet"))
N_WORDS = 45000
N_HELDOUT = 1200
START_FROM_A_TRAINED_ONE = ("fine_tune", "bilm_tiny_longer")
SHRUNKEN = {
    "lstm": {"dim": 24, "projection_dim": 16, "n_layers": 2, "use_skip_connections": True},
    "char_cnn": {"embedding": {"dim": 4}, "filters": [[1, 4], [2, 8]], "n_highway": 1},
}


@pytest.fixture(scope="module", autouse=True)
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More words than any config has a cutoff at, a dozen in a sentence; beside it the first of them, to measure on."""
    path = tmp_path_factory.mktemp("text") / "shard.txt"
    words = [f"w{number}" for number in range(N_WORDS)]
    lines = [" ".join(words[start : start + 12]) + "\n" for start in range(0, N_WORDS, 12)]
    path.write_text("".join(lines))
    path.with_name("heldout.txt").write_text("".join(lines[: N_HELDOUT // 12]))
    return path


def run(path: Path, text: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Train a config for one batch, and give its metrics."""
    monkeypatch.setenv("LM_TRAIN", str(text))
    monkeypatch.setenv("LM_HELDOUT", str(text.with_name("heldout.txt")))
    few: dict[str, Any] = {"data_loader.batches_per_epoch": 1, "trainer.num_epochs": 1}
    params = Params.from_file(str(path), json.dumps(few)).as_dict(quiet=True)
    params["trainer"].pop("learning_rate_scheduler", None)
    options = params["model"]["bilm"].get("options")
    if "contextualizer" in params["model"]:  # it has the sizes of its config
        pytest.importorskip("allennlp_models.lm")
    elif options is not None:
        options.update({block: SHRUNKEN[block] for block in options})
    for loader in (params["data_loader"], params["validation_data_loader"]):
        loader.update({"streams": 4, "window": 5} if loader["type"] == "unrolled_streams" else {"max_tokens": 500})
    train_model(Params(params), str(folder))
    metrics: dict[str, Any] = json.loads((folder / "metrics.json").read_text())
    return metrics


@pytest.mark.parametrize(
    "path", [path for path in CONFIGS if path.stem not in START_FROM_A_TRAINED_ONE], ids=lambda path: path.stem
)
def test_a_config_trains_one_step(path: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = run(path, text, tmp_path / "run", monkeypatch)
    assert 1 < metrics["validation_forward_perplexity"] < inf
    assert metrics["validation_n_tokens"] == N_HELDOUT + N_HELDOUT / 12
    assert load_checkpoint(tmp_path / "run/model.tar.gz").vocabulary is not None
    if path.stem == "bilm_tiny":
        (tmp_path / "run").rename(tmp_path / "tiny")
        for name in START_FROM_A_TRAINED_ONE:
            training_further_keeps_softmax_and_vocabulary(name, text, tmp_path, monkeypatch)


def training_further_keeps_softmax_and_vocabulary(
    name: str, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Train the biLM of `tiny` on a text of few words, by the config of this name."""
    monkeypatch.setenv("ELMO_BILM", str(tmp_path / "tiny/model.tar.gz"))
    few = text.with_name("few.txt")
    few.write_text("w1 w2 w3 unheard-of\n" * 40)
    run(FOLDER / f"{name}.jsonnet", few, tmp_path / name, monkeypatch)
    first, second = (load_checkpoint(tmp_path / folder / "model.tar.gz") for folder in ("tiny", name))
    assert first.vocabulary == second.vocabulary
    assert first.softmax is not None and second.softmax is not None
    assert first.softmax.config == second.softmax.config
    head = "adaptive.head.weight"
    for name, value in first.softmax.state_dict.items():
        change = (second.softmax.state_dict[name] - value).abs().max()
        assert change < 0.01, name  # one step of Adam's, none where no word was
    assert not torch.equal(second.softmax.state_dict[head], first.softmax.state_dict[head])


@pytest.mark.parametrize("name", ["lstm", "transformer", "gated_cnn"])
def test_contextualizers_are_compared_with_as_many_weights(name: str) -> None:
    pytest.importorskip("allennlp_models.lm")
    variables = {"LM_TRAIN": "somewhere", "LM_HELDOUT": "somewhere"}
    model = Params.from_file(str(FOLDER / f"contextualizers/{name}.jsonnet"), ext_vars=variables)["model"].as_dict()
    options = BiLMOptions.from_dict({**model["bilm"]["options"], "contextualizer": model.get("contextualizer")})
    n_weights = sum(weight.numel() for weight in BiLM(options).lstm.parameters())
    assert n_weights == pytest.approx(1_183_744, rel=0.005)


@pytest.mark.parametrize("path", [*CONFIGS, *SYSTEMS], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_config_asks_no_processor_for_what_it_may_not_have(path: Path) -> None:
    variables = dict.fromkeys(("LM_TRAIN", "LM_HELDOUT", "ELMO_BILM"), "somewhere")
    precision = Params.from_file(str(path), ext_vars=variables)["model"]["precision"]
    assert precision == ("float32" if path.stem in ("bilm_original", "fine_tune") else "auto")


@pytest.mark.parametrize("path", [*CONFIGS, *SYSTEMS], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_model_that_has_learned_nothing_knows_no_more_and_no_less(
    path: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On words by Zipf's law its perplexity is near that of scores of zero: the size of the vocabulary, in `full`."""
    variables = {"LM_TRAIN": str(text), "LM_HELDOUT": str(text), "ELMO_BILM": "english-tiny"}
    params = Params.from_file(str(path), ext_vars=variables).as_dict(quiet=True)
    options = params["model"]["bilm"].get("options")
    if options is None:
        pytest.skip("goes on from a trained one")
    if "contextualizer" in params["model"]:
        pytest.skip("its first weights, and the norm of its outputs, are AllenNLP's choice")
    options["lstm"]["dim"] = min(options["lstm"]["dim"], 1024)  # the widths that scores depend on stay as they are
    vocab = Vocabulary.from_params(Params(params["vocabulary"]))
    model = Model.from_params(Params({**params["model"], "precision": "float32"}), vocab=vocab).eval()
    words = [f"w{number}" for number in range(N_WORDS)]
    draw = random.Random(0)
    lines = [draw.choices(words, [1 / (row + 3) for row in range(N_WORDS)], k=15) for _ in range(8)]
    found, nothing = [], torch.zeros(())
    nll = model.softmax.nll
    for factor in (nothing + 1, nothing):
        monkeypatch.setattr(model.softmax, "nll", lambda vectors, *rest, factor=factor: nll(vectors * factor, *rest))
        with torch.no_grad():
            model(tokens=WordIds(vocab).of_sentences(lines))
        found.append(model.get_metrics(reset=True)["perplexity"])
    fresh, ignorant = found
    assert ignorant / 1.5 < fresh < ignorant * 1.5
    if params["model"]["softmax"]["type"] != "adaptive":
        assert ignorant == pytest.approx(vocab.get_vocab_size() - 1, rel=1e-3)
