"""What a run learned of the layers: softmax(w) of each scalar mix (ELMo §3.2; figure 2 of the paper)."""

import re
import tarfile
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, Optional

from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.analysis.runs import CONFIG, read_object, write_object
from elmo_plugin.checkpoints import read_weights

FILE = "layer_weights.json"
PLACES = ("input", "output")
MIX = re.compile(r"(?P<where>.*?)(?P<mix>mixes\.(?P<number>\d+)|(?P<place>input|output)_mix)\.scalar_parameters")


class LearnedMix(NamedTuple):
    """softmax(w), a number a layer and the token layer first, and γ."""

    weights: list[float]
    gamma: float


def layer_weights(folder: Path) -> Optional[dict[str, LearnedMix]]:
    """The scalar mixes of a run's best model by their places, `input` and `output`; `None` where no trace is left.

    Read from `layer_weights.json` if that is there, else from `best.th` or `model.tar.gz`. Raises
    `ConfigurationError` if what is there cannot be read.
    """
    if (folder / FILE).exists():
        return _kept(folder / FILE)
    weights = _weights(folder)
    return None if weights is None else _mixes(weights, read_object(folder / CONFIG)["model"])


def write_layer_weights(folder: Path, mixes: dict[str, LearnedMix]) -> None:
    """Keep the layer weights of a run in its `layer_weights.json`."""
    write_object(folder / FILE, {place: mix._asdict() for place, mix in mixes.items()})


def _kept(path: Path) -> dict[str, LearnedMix]:
    """Raises `ConfigurationError` unless there are numbers for each place."""
    try:
        mixes = {
            place: LearnedMix([float(weight) for weight in mix["weights"]], float(mix["gamma"]))
            for place, mix in read_object(path).items()
        }
        if not all(mix.weights for mix in mixes.values()):
            raise ValueError("found a mix of no layers")
        return mixes
    except (TypeError, KeyError, ValueError) as error:
        raise ConfigurationError(f"{path.name}: {error}; wanted 'weights' and 'gamma' of each place") from error


def _weights(folder: Path) -> Optional[dict[str, Tensor]]:
    """The state dict of a run's best model, if it is still there."""
    best, archive = folder / "best.th", folder / "model.tar.gz"
    if best.exists():
        return read_weights(best, best.name)
    if not archive.exists():
        return None
    try:
        with tarfile.open(archive, "r:gz") as members:
            member = members.extractfile("weights.th")
            content = member.read() if member else b""
    except (tarfile.TarError, OSError, EOFError, KeyError, zlib.error) as error:
        raise ConfigurationError(f"{archive.name} is no archive with a weights.th: {error}") from error
    return read_weights(BytesIO(content), f"{archive.name}!weights.th")


def _mixes(weights: dict[str, Tensor], model: dict[str, Any]) -> dict[str, LearnedMix]:
    """The scalar mixes in a state dict; a second one at the same place goes by its own name."""
    found: dict[str, LearnedMix] = {}
    for key, parameters in weights.items():
        if mix := MIX.fullmatch(key):
            place = mix["place"] or _place(mix["where"], int(mix["number"]), model)
            gamma = float(weights[f"{mix['where']}{mix['mix']}.gamma"])
            name = f"{mix['where']}{mix['mix']}" if place in found else place
            found[name] = LearnedMix(parameters.float().softmax(dim=0).tolist(), gamma)
    return found


def _place(where: str, number: int, model: dict[str, Any]) -> str:
    """Where the outputs of an `Elmo` go: in our models where `elmo_at` says, in others to the input."""
    if not where.startswith("text."):
        return "input"
    return [place for place in PLACES if place in model.get("elmo_at", PLACES)][number]
