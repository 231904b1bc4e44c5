"""Read the weights that a task learned for the layers of the biLM (figure 2 of the ELMo paper)."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

from torch import Tensor

from elmo_plugin.checkpoints import read_weights, unpacked
from elmo_plugin.common import read_json
from elmo_plugin.models import PLACES

LAYER_WEIGHTS = "layer_weights.json"
"""A file in a run's folder that replaces its weights: its layer weights by place, each with the keys of a mix."""
MIX = re.compile(
    r"(?P<where>.*?)(?P<mix>(scalar_mix_|mixes\.)(?P<number>\d+)|(?P<place>input|output)_mix)\.scalar_parameters"
)


class LearnedMix(NamedTuple):
    """softmax(w), one number per layer, the token layer first; and γ."""

    weights: list[float]
    gamma: float


def read_layer_weights(folder: Path) -> Optional[dict[str, LearnedMix]]:
    """Return the scalar mixes of a run's best model by place, `input` and `output`, or `None` without weights.

    Reads `layer_weights.json` if the run has one, otherwise `best.th` or `model.tar.gz`. Raises `ConfigurationError`
    if the weights cannot be read.
    """
    best, archive = folder / "best.th", folder / "model.tar.gz"
    if (folder / LAYER_WEIGHTS).exists():
        return {place: LearnedMix(**mix) for place, mix in read_json(folder / LAYER_WEIGHTS).items()}
    if best.exists():
        weights = read_weights(best, best.name)
    elif archive.exists():
        with unpacked(archive, archive.name) as inside:
            weights = read_weights(inside / "weights.th", f"{archive.name}/weights.th")
    else:
        return None
    return learned_mixes(weights, read_json(folder / "config.json")["model"])


def learned_mixes(weights: Mapping[str, Tensor], model: Mapping[str, Any]) -> dict[str, LearnedMix]:
    """Return the scalar mixes in a state dict by their places, which the config of the model names.

    A second mix at the same place is returned by its full name.
    """
    found: dict[str, LearnedMix] = {}
    for key, parameters in weights.items():
        if mix := MIX.fullmatch(key):
            name = f"{mix['where']}{mix['mix']}"
            # The mixes of our models are in the order of `elmo_at`. Other models have ELMo at the input.
            ours = [place for place in PLACES if place in model.get("elmo_at", PLACES)]
            place = mix["place"] or (ours[int(mix["number"])] if mix["where"].startswith("text.") else "input")
            gamma = float(weights[f"{name}.gamma"])
            found[name if place in found else place] = LearnedMix(parameters.float().softmax(dim=0).tolist(), gamma)
    return found
