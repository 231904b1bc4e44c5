"""The published architectures, built from their own configs: every weight of the biLM, without a softmax, counted."""

from pathlib import Path

import pytest
import torch
from allennlp.common import Params

from elmo_plugin.bilm import BiLM, BiLMOptions

CONFIGS = Path(__file__).parents[2] / "training_configs/pretrain"
COUNTS = {"small": 13_593_312, "medium": 28_027_744, "original": 93_600_864}
"""Source: the files of the published weights."""


@pytest.mark.parametrize("name", COUNTS)
def test_every_weight_is_counted(name: str) -> None:
    variables = {"LM_TRAIN": "text", "LM_HELDOUT": "text"}
    params = Params.from_file(str(CONFIGS / f"bilm_{name}.jsonnet"), ext_vars=variables)
    with torch.device("meta"):
        bilm = BiLM(BiLMOptions.from_dict(params["model"]["bilm"]["options"].as_dict()))
    assert (bilm.options.lstm.cell_clip, bilm.options.lstm.projection_clip) == (3, 3)
    assert bilm.options.lstm.use_skip_connections
    assert sum(weight.numel() for weight in bilm.parameters()) == COUNTS[name]
