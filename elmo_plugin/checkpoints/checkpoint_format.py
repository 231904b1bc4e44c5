"""The interface of a checkpoint format, and the functions that read a checkpoint in any format."""

from abc import ABC, abstractmethod
from os import fspath
from pathlib import Path
from typing import Any, NamedTuple, Optional

from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm import BiLM
from elmo_plugin.checkpoints.files import HDF5, JSON, Location, bundled_names, is_missing, kind_of, plain_location
from elmo_plugin.lstm import LstmState
from elmo_plugin.options import BiLMOptions

MOST_NAMES = 10
"""The number of file names that an error lists."""
ADVICE = {HDF5: "; its name must end with .hdf5", JSON: "; name the weights that belong to it, or their folder"}


class SavedSoftmax(NamedTuple):
    """Hold the softmax that a biLM was trained with: its block of the config and its state dict."""

    config: dict[str, Any]
    state_dict: dict[str, Tensor]


class Checkpoint(NamedTuple):
    """Hold the sizes and the weights of a biLM together, so that no module is ever half loaded.

    `state_dict` has the names of `BiLM`. The softmax and the lines of the vocabulary file come along if the files hold
    them. A vocabulary usually begins with `<S>`, `</S>` and `<UNK>`, as bilm-tf's README recommends.

    >>> checkpoint = load_checkpoint("english-tiny")
    >>> checkpoint.options.layer_dim, checkpoint.vocabulary[:3]
    (512, ['<S>', '</S>', '<UNK>'])
    >>> build_bilm(checkpoint).options.num_layers
    3
    """

    options: BiLMOptions
    state_dict: dict[str, Tensor]
    softmax: Optional[SavedSoftmax] = None
    vocabulary: Optional[list[str]] = None


class CheckpointFormat(ABC, Registrable):
    """Read a biLM from files of one format."""

    @abstractmethod
    def recognises(self, location: Location) -> bool:
        """Return whether a path or URL looks like this format, by names alone."""

    @abstractmethod
    def read(self, location: Location) -> Checkpoint:
        """Read a biLM. Raises `ConfigurationError` that names the file for one that cannot be read."""

    def read_sizes(self, location: Location) -> BiLMOptions:
        """Read the sizes of a biLM, without its weights if the format allows that."""
        return self.read(location).options


def load_checkpoint(location: Location) -> Checkpoint:
    """Read a biLM in any format, or the bundled biLM of that name.

    Raises `ConfigurationError` if no format recognises the location.
    """
    return _format_of(location).read(plain_location(location))


def load_sizes(location: Location) -> BiLMOptions:
    """Read the sizes of a biLM in any format, or of the bundled biLM of that name.

    Raises `ConfigurationError` if no format recognises the location.
    """
    return _format_of(location).read_sizes(plain_location(location))


def _format_of(location: Location) -> CheckpointFormat:
    """Return the first format that recognises a location. Raises `ConfigurationError` that says what is there."""
    name = plain_location(location)
    path = Path(name)
    if is_missing(name):
        bundled = f"; the bundled biLMs are: {', '.join(bundled_names()) or 'none'}" if path.name == name else ""
        raise ConfigurationError(f"'{name}' holds no biLM: there is no such file or folder{bundled}")
    formats = {format: CheckpointFormat.by_name(format)() for format in CheckpointFormat.list_available()}
    for candidate in formats.values():
        if candidate.recognises(name):
            return candidate
    if path.suffix == ".th":
        got = "weights without their config; name the folder that they are in, or a model.tar.gz"
    elif path.is_dir():
        names = sorted(file.name for file in path.iterdir())
        shown = ", ".join(names[:MOST_NAMES]) or "nothing in it"
        got = f"a folder with {shown}{' …' if len(names) > MOST_NAMES else ''}"
    else:
        kind = kind_of(path) or "another file"
        got = kind + ADVICE.get(kind, "")
    raise ConfigurationError(f"'{name}' holds no biLM: expected one of the formats {', '.join(formats)}, got {got}")


def build_bilm(checkpoint: Checkpoint, kernel: str = "auto", source: Location = "") -> BiLM:
    """Build a biLM with the sizes and the weights of a checkpoint.

    Raises `ConfigurationError` if the weights do not fit the sizes.
    """
    weights = dict(checkpoint.state_dict)
    bilm = BiLM(checkpoint.options, kernel, fspath(source))
    if "warm_hidden" in weights:
        bilm.warm_state = LstmState(weights["warm_hidden"].clone(), weights["warm_cell"].clone())
    weights.setdefault("_extra_state", bilm.get_extra_state())
    try:
        bilm.load_state_dict(weights)
    except RuntimeError as error:  # for example a language model that was trained with its own 'contextualizer'
        raise ConfigurationError(
            f"'{fspath(source)}': expected the weights of a biLM of {checkpoint.options}, got others: {error}"
        ) from error
    return bilm
