"""Training learns: a language whose perplexity is known, and the demo's tagger against a floor of F1."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from allennlp.commands.train import train_model
from allennlp.common import Params

import elmo_plugin  # noqa: F401

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
LENGTH, CHOICES = 8, 4
BEST_PERPLEXITY = CHOICES ** (LENGTH / (LENGTH + 1))
"""Each of the words is one of `CHOICES` with equal chances, and `</S>` after them is certain, in both directions."""


def write_sentences(path: Path, sentences: int, seed: int) -> str:
    """Write sentences whose word at each position is drawn from that position's own words."""
    draw = random.Random(seed)
    lines = (" ".join(f"w{place}{draw.randrange(CHOICES)}" for place in range(LENGTH)) for _ in range(sentences))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    "loader",
    [
        {"type": "sentence_batches", "max_tokens": 200, "max_sentence_length": 20},
        {"type": "unrolled_streams", "streams": 10, "window": 20},
    ],
    ids=lambda loader: loader["type"],
)
def test_a_bilm_reaches_the_entropy_of_its_language_and_does_not_go_below(
    loader: dict[str, Any], tmp_path: Path
) -> None:
    text, heldout = write_sentences(tmp_path / "text", 2000, 1), write_sentences(tmp_path / "heldout", 500, 2)
    char_cnn = {"filters": [[1, 8], [2, 16], [3, 16]], "embedding": {"dim": 8}, "max_characters_per_token": 8}
    lstm = {"dim": 64, "projection_dim": 32, "n_layers": 2, "use_skip_connections": True}
    config = {
        "dataset_reader": {"type": "text_shards"},
        "vocabulary": {"type": "text_shards", "files": text},
        "train_data_path": text,
        "validation_data_path": heldout,
        "model": {
            "type": "bilm",
            "bilm": {"options": {"lstm": lstm, "char_cnn": char_cnn}, "seed": 1},
            "softmax": {"type": "full"},
        },
        "data_loader": loader,
        "trainer": {"num_epochs": 3, "cuda_device": -1, "optimizer": {"type": "adamw", "lr": 0.01}, "grad_norm": 1.0},
    }
    train_model(Params(config), str(tmp_path / "run"), return_model=False)
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    for direction in ("forward", "backward"):
        perplexity = metrics[f"best_validation_{direction}_perplexity"]
        assert 0.98 * BEST_PERPLEXITY < perplexity < 1.05 * BEST_PERPLEXITY


def test_the_tagger_of_the_demo_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    params = Params.from_file("training_configs/tag/demo.jsonnet", '{"trainer.cuda_device": -1}')
    train_model(params, str(tmp_path / "run"), return_model=False)
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["best_validation_f1-measure-overall"] > 0.85, metrics
