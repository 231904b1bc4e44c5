"""Small runs of pretraining: their configuration, and what they end with."""

import json
import random
from pathlib import Path
from typing import Any

import torch
from allennlp.commands.train import train_model
from allennlp.common import Params

from tests.oracles import options

BATCHES = 6  # of an epoch; a checkpoint every 4
LOADERS = {
    "unrolled_streams": {"type": "unrolled_streams", "streams": 3, "window": 5},
    "sentence_batches": {"type": "sentence_batches", "max_tokens": 30, "max_sentence_length": 12},
}
SOFTMAXES = {"unrolled_streams": {"type": "sampled", "n_samples": 6}, "sentence_batches": {"type": "full"}}
NOT_COMPARED = ("duration", "memory_MB", "tokens/s")


def write_text(path: Path, sentences: int, seed: int) -> Path:
    """Sentences of one to eleven of thirty words."""
    draw = random.Random(seed)
    lines = (" ".join(f"w{draw.randrange(30)}" for _ in range(draw.randint(1, 11))) for _ in range(sentences))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def config(folder: Path, loader: str, **trainer: Any) -> dict[str, Any]:
    """A biLM with dropout, trained for two epochs."""
    train, heldout = write_text(folder / "train.txt", 60, 1), write_text(folder / "heldout.txt", 8, 2)
    return {
        "dataset_reader": {"type": "text_shards"},
        "vocabulary": {"type": "text_shards", "files": str(train)},
        "train_data_path": str(train),
        "validation_data_path": str(heldout),
        "model": {
            "type": "bilm",
            "bilm": {"options": options(n_highway=1).to_dict(), "seed": 3},
            "softmax": SOFTMAXES[loader],
            "dropout": 0.1,
        },
        "data_loader": {**LOADERS[loader], "shuffle": True, "batches_per_epoch": BATCHES},
        "validation_data_loader": {**LOADERS[loader], "shuffle": False},
        "trainer": {
            "num_epochs": 2,
            "validation_metric": "-perplexity",
            "cuda_device": -1,
            "optimizer": {"type": "adamw", "lr": 0.01},
            "learning_rate_scheduler": {"type": "warmup_cosine", "warmup_steps": 5},
            "grad_norm": 1.0,
            "callbacks": [{"type": "exact_resume"}, {"type": "kill"}],
            "checkpointer": {"type": "atomic", "save_every_num_batches": 4},
            **trainer,
        },
    }


def train(keys: dict[str, Any], run: Path, recover: bool = False) -> None:
    """`allennlp train`, in this process."""
    train_model(Params(json.loads(json.dumps(keys))), str(run), recover=recover, return_model=False)


def end_of(run: Path) -> dict[str, Any]:
    """All that a run ends with, but for how long it took and where it lies."""
    names = ["best.th", f"model_state_e1_b{BATCHES}.th", f"training_state_e1_b{BATCHES}.th"]
    files = {name: torch.load(run / name, weights_only=True) for name in names}
    del files[names[2]]["best_model_filename"]
    metrics = {path.name: json.loads(path.read_text()) for path in run.glob("metrics*.json")}
    assert len(metrics) == 3
    return {"files": files, "metrics": metrics}


def differences(one: Any, other: Any, place: str = "") -> list[str]:
    """Where two nested values are not the same, tensors bit by bit."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [key for key in one.keys() | other.keys() if not str(key).endswith(NOT_COMPARED)]
        return [d for key in keys for d in differences(one.get(key), other.get(key), f"{place}/{key}")]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        return [d for i, pair in enumerate(zip(one, other, strict=True)) for d in differences(*pair, f"{place}/{i}")]
    same = (
        torch.equal(one, other) if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) else one == other
    )
    return [] if same else [place]
