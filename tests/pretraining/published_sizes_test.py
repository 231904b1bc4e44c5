"""The published architectures, built from their own configs: each shape on the way, and every weight counted.

What is counted is the biLM: character embeddings, convolutions, highways, projection, the LSTMs of both directions; not
the softmax that pretraining puts over it, nor the mixes that a task does.
"""

from pathlib import Path

import pytest
import torch
from allennlp.common import Params

from elmo_plugin.bilm import BiLM, BiLMOptions

CONFIGS = Path(__file__).parents[2] / "training_configs/pretrain"
SIZES = {"small": (1024, 128, 1), "medium": (2048, 256, 1), "original": (4096, 512, 2)}
"""H, P and highways. Source: Peters et al. 2018 §3.4, and the options files beside the published weights."""
COUNTS = {"small": 13_593_312, "medium": 28_027_744, "original": 93_600_864}
FILTERS = [(1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)]


def options_of(name: str) -> BiLMOptions:
    """Return the sizes in a config."""
    variables = {"LM_TRAIN": "text", "LM_HELDOUT": "text"}
    params = Params.from_file(str(CONFIGS / f"bilm_{name}.jsonnet"), ext_vars=variables)
    return BiLMOptions.from_dict(params["model"]["bilm"]["options"].as_dict())


def count_by_hand(cell: int, width: int, n_highway: int) -> int:
    """Count the weights of the published architecture, matrix by matrix, from the paper's description."""
    n_filters = sum(channels for _, channels in FILTERS)
    characters = 262 * 16 + sum((window * 16 + 1) * channels for window, channels in FILTERS)
    highways = n_highway * 2 * (n_filters + 1) * n_filters
    projection = (n_filters + 1) * width
    lstm = 4 * cell * (2 * width + 1) + cell * width
    return characters + highways + projection + 2 * 2 * lstm


@pytest.mark.parametrize("name", SIZES)
def test_every_weight_is_counted(name: str) -> None:
    with torch.device("meta"):
        bilm = BiLM(options_of(name))
    assert (bilm.options.lstm.cell_clip, bilm.options.lstm.projection_clip) == (3, 3)
    assert bilm.options.lstm.use_skip_connections
    assert sum(weight.numel() for weight in bilm.parameters()) == COUNTS[name] == count_by_hand(*SIZES[name])
