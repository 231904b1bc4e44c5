"""The biLMs that are measured, and how each is pretrained: read from `training_configs/pretrain`."""

from pathlib import Path
from typing import Any

from allennlp.common import Params

from elmo_plugin.options import BiLMOptions

CONFIGS = Path(__file__).resolve().parents[1] / "training_configs" / "pretrain"
SIZES = {"small": "bilm_small", "original": "bilm_original", "toy": "bilm_tiny"}
"""What the command line calls them: 1024/128 and 4096/512, as published, and one that is only for tests."""
TOY: dict[str, Any] = {
    "model.bilm.options.lstm.dim": 64,
    "model.bilm.options.lstm.projection_dim": 32,
    "model.bilm.options.char_cnn.filters": [[1, 8], [2, 16], [3, 24]],
    "model.softmax.cutoffs": [50],
    "vocabulary.max_size": 200,
}


def pretraining_config(size: str, text: str) -> Params:
    """The config of `allennlp train` for this size, pretrained and held out on the files that `text` names."""
    overrides = TOY if size == "toy" else {}
    ext_vars = {"LM_TRAIN": text, "LM_HELDOUT": text}
    return Params.from_file(CONFIGS / f"{SIZES[size]}.jsonnet", overrides, ext_vars)


def options_of(size: str) -> BiLMOptions:
    """The sizes of the biLM, without its vocabulary."""
    config = pretraining_config(size, "")
    return BiLMOptions.from_dict(config["model"]["bilm"]["options"].as_dict())
