"""The biLMs that are measured: sizes from `training_configs/pretrain`, with random weights."""

from pathlib import Path
from typing import Any

import torch
from allennlp.common import Params

from elmo_plugin.bilm import BiLM, BiLMOptions
from elmo_plugin.checkpoints import BilmTf, Checkpoint

CONFIGS = Path(__file__).resolve().parents[1] / "training_configs" / "pretrain"
SIZES = {"tiny": "bilm_tiny", "small": "bilm_small", "original": "bilm_original"}
"""The size of `english-tiny`, 512/256, and the published ones, 1024/128 and 4096/512, with their configs."""
TOY = "toy"
SPECK = "speck"
CHANGES: dict[str, dict[str, Any]] = {
    TOY: {
        "model.bilm.options.lstm.dim": 64,
        "model.bilm.options.lstm.projection_dim": 32,
        "model.bilm.options.char_cnn.filters": [[1, 8], [2, 16], [3, 24]],
        "model.softmax.cutoffs": [50],
        "vocabulary.max_size": 200,
    },
    SPECK: {
        "data_loader.max_tokens": 10240,
        "model.bilm.options.lstm.dim": 16,
        "model.bilm.options.lstm.projection_dim": 8,
        "model.bilm.options.char_cnn.filters": [[1, 4], [2, 4]],
        "model.softmax.cutoffs": [50],
        "vocabulary.max_size": 200,
    },
}
"""Unpublished sizes, as changes to `bilm_tiny`: one for tests, and one for runs over tens of millions of tokens."""
LSTM_SCALE = 1.5
"""A factor on the initial LSTM weights. At 1 the layers' outputs are a tenth of a trained biLM's and hide differences.
At 2 the layers are chaotic: rounding errors grow from token to token, unlike in a trained biLM."""


def pretraining_config(size: str, text: str) -> Params:
    """Return the config that pretrains a biLM of this size, with `text` as training and held-out text."""
    name, changes = ("bilm_tiny", CHANGES[size]) if size in CHANGES else (SIZES[size], {})
    return Params.from_file(CONFIGS / f"{name}.jsonnet", changes, {"LM_TRAIN": text, "LM_HELDOUT": text})


def options_of(size: str) -> BiLMOptions:
    """Return the sizes of the biLM."""
    return BiLMOptions.from_dict(pretraining_config(size, "")["model"]["bilm"]["options"].as_dict())


@torch.no_grad()
def write_random_weights(options: BiLMOptions, folder: Path) -> None:
    """Write the `options.json` and `weights.hdf5` of an untrained biLM, which every system reads."""
    bilm = BiLM.random(options, seed=1)
    for name, parameter in bilm.lstm.named_parameters():
        if "weight" in name:
            parameter.mul_(LSTM_SCALE)
    BilmTf().write(Checkpoint(options, bilm.state_dict()), folder)
