"""Folders as `elmo-plugin train` leaves them, written by hand."""

import json
from pathlib import Path
from typing import Any


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def tagger_config(seed: int, metric: str = "+accuracy") -> dict[str, Any]:
    """What a report reads of a config: the seed, the data and the metric."""
    return {
        "pytorch_seed": seed,
        "train_data_path": "corpora/towns/train.conll",
        "model": {"type": "elmo_tagger"},
        "trainer": {"validation_metric": metric},
    }


def write_run(folder: Path, config: Any, scores: list[float], metric: str = "accuracy", **grid: Any) -> Path:
    """A run whose validation scores are these, an epoch each, and whose training scores are a tenth higher."""
    epochs = [{f"training_{metric}": score + 0.1, f"validation_{metric}": score} for score in scores]
    write_epochs(folder, config, epochs, best=scores.index(max(scores)))
    if grid:
        write_json(folder / "grid.json", {**grid, "metric": metric})
    return folder


def write_pretraining(folder: Path, perplexities: list[tuple[float, float]]) -> None:
    """A run of the model `bilm`: forward and backward perplexity on the validation text, an epoch each."""
    config = {
        "pytorch_seed": 1,
        "train_data_path": "news/train-*",
        "model": {"type": "bilm"},
        "trainer": {"validation_metric": "-perplexity"},
    }
    epochs = [
        {
            "validation_forward_perplexity": forward,
            "validation_backward_perplexity": backward,
            "validation_perplexity": (forward * backward) ** 0.5,
            "validation_oov_rate": 0.025,
            "validation_n_tokens": 12_345,
        }
        for forward, backward in perplexities
    ]
    write_epochs(folder, config, epochs, best=len(epochs) - 1)


def write_epochs(folder: Path, config: Any, epochs: list[dict[str, float]], best: int) -> None:
    write_json(folder / "config.json", config)
    for number, epoch in enumerate(epochs):
        write_json(folder / f"metrics_epoch_{number}.json", epoch)
    of_best = {f"best_{key}": value for key, value in epochs[best].items() if key.startswith("validation")}
    ended = {"best_epoch": best, "training_duration": "0:00:07.25"}
    write_json(folder / "metrics.json", {**epochs[-1], **of_best, **ended})
