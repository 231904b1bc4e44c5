"""Folders as `allennlp train` leaves them, written by hand."""

import json
from pathlib import Path
from typing import Any


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def tagger_config(seed: int, elmo: Any = None, metric: str = "+accuracy", **keys: Any) -> dict[str, Any]:
    """What a report reads of a config: the seed, the data, the metric, and whether there is ELMo."""
    return {
        "pytorch_seed": seed,
        "train_data_path": "corpora/towns/train.conll",
        "model": {"type": "elmo_tagger", "elmo": elmo},
        "trainer": {"validation_metric": metric},
        **keys,
    }


def write_run(folder: Path, config: Any, scores: list[float], metric: str = "accuracy", **grid: Any) -> Path:
    """A run whose validation scores are these, an epoch each, and whose training scores are a tenth higher."""
    write_json(folder / "config.json", config)
    best = max(scores)
    epochs = [{f"training_{metric}": score + 0.1, f"validation_{metric}": score} for score in scores]
    for number, epoch in enumerate(epochs):
        write_json(folder / f"metrics_epoch_{number}.json", epoch)
    ended = {"best_epoch": scores.index(best), "training_duration": "0:00:07.25", f"best_validation_{metric}": best}
    write_json(folder / "metrics.json", {**epochs[-1], **ended})
    if grid:
        write_json(folder / "grid.json", {**grid, "metric": metric})
    return folder


def write_pretraining(folder: Path, perplexities: list[tuple[float, float]], **training: float) -> Path:
    """A run of the model `bilm`: forward and backward perplexity on the validation text, an epoch each."""
    config = {"pytorch_seed": 1, "model": {"type": "bilm"}, "trainer": {"validation_metric": "-perplexity"}}
    write_json(folder / "config.json", config)
    for number, (forward, backward) in enumerate(perplexities):
        both = {
            "forward_perplexity": forward,
            "backward_perplexity": backward,
            "perplexity": (forward * backward) ** 0.5,
        }
        counts = {"validation_oov_rate": 0.025, "validation_n_tokens": 12_345, **training}
        epoch = {**{f"validation_{key}": value for key, value in both.items()}, **counts}
        write_json(folder / f"metrics_epoch_{number}.json", epoch)
    ended = {key.replace("validation", "best_validation"): value for key, value in epoch.items() if "valid" in key}
    write_json(folder / "metrics.json", {**epoch, **ended, "best_epoch": number})
    return folder
