"""Random weights, written once as the bilm-tf pair that every contestant reads."""

from pathlib import Path

import torch

from elmo_plugin.bilm import BiLM
from elmo_plugin.checkpoints import BilmTf, Checkpoint
from elmo_plugin.options import BiLMOptions

LIVELINESS = 1.5
"""Times the initial weights of the LSTMs: at 1 their layers are a tenth of a trained biLM's and hide differences, at 2
and random they are chaotic, and rounding grows from token to token as it does not in a trained one."""


@torch.no_grad()
def write_random_weights(options: BiLMOptions, folder: Path) -> None:
    """Write `options.json` and `weights.hdf5` of a biLM that has learned nothing."""
    bilm = BiLM.random(options, seed=1)
    for name, parameter in bilm.lstm.named_parameters():
        if "weight" in name:
            parameter.mul_(LIVELINESS)
    BilmTf().write(Checkpoint(options, bilm.state_dict()), folder)
