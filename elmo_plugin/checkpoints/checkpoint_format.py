"""The interface of a checkpoint format, and functions that read a checkpoint in any format."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from os import fspath
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Optional

from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm import BiLM, BiLMOptions, check_size
from elmo_plugin.checkpoints.files import (
    HDF5,
    JSON,
    ZIP,
    Location,
    bundled_names,
    is_missing,
    kind_of,
    local_file,
    names_in,
    plain_location,
)
from elmo_plugin.checkpoints.zip_files import unpacked

MOST_NAMES = 10
"""The largest number of file names that an error lists."""
ADVICE = {HDF5: "; its name must end with .hdf5", JSON: "; name the weights that belong to it, or their folder"}
EXTRA_STATE = "_extra_state"
"""PyTorch's name in a state dict for what a module says about itself."""


class SavedSoftmax(NamedTuple):
    """Hold the softmax that a biLM was trained with: its block of the config and its state dict."""

    config: dict[str, Any]
    state_dict: dict[str, Tensor]


class Checkpoint(NamedTuple):
    """Hold the sizes and the weights of a biLM together, so that no module is ever half loaded.

    `state_dict` has the names of `BiLM`. `vocabulary` is the lines of the vocabulary file, which usually begins with
    `<S>`, `</S>` and `<UNK>`, as bilm-tf's README recommends.

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

    looks_for: ClassVar[str]
    """The files that `recognises` looks for in a folder, as errors list them."""

    @abstractmethod
    def recognises(self, location: Location) -> bool:
        """Return whether a path or URL looks like this format, by its name or the names in the folder."""

    @abstractmethod
    def read(self, location: Location) -> Checkpoint:
        """Read a biLM. Raises `ConfigurationError` that names the file if it cannot be read."""

    def read_sizes(self, location: Location) -> BiLMOptions:
        """Read the sizes of a biLM, without its weights if the format allows that."""
        return self.read(location).options


def load_checkpoint(location: Location) -> Checkpoint:
    """Read a biLM in any format: a file, a folder, a zip file of either, or the name of a bundled biLM.

    Raises `ConfigurationError` if no format recognizes the location.
    """
    with _opened(location) as (form, place):
        return form.read(place)


def load_sizes(location: Location) -> BiLMOptions:
    """Read the sizes of a biLM in any format; see `load_checkpoint`.

    Raises `ConfigurationError` if no format recognizes the location.
    """
    with _opened(location) as (form, place):
        return form.read_sizes(place)


@contextmanager
def _opened(location: Location) -> Iterator[tuple[CheckpointFormat, Location]]:
    """Give the format of a location and the path to read. A zip file is unpacked until the context ends."""
    name = plain_location(location)
    if is_missing(name):
        bundled = f"; the bundled biLMs are: {', '.join(bundled_names()) or 'none'}" if Path(name).name == name else ""
        raise ConfigurationError(f"'{name}' holds no biLM: there is no such file or folder{bundled}")
    form = _format_of(name)
    if form is not None:
        yield form, name
        return
    path = local_file(name, "pretrained")
    is_zip = not name.endswith(".th") and kind_of(path) == ZIP  # torch's own files are zip files, too
    with unpacked(path, name) if is_zip else nullcontext(path) as place:
        yield _found_in(place, name)


def _format_of(location: Location) -> Optional[CheckpointFormat]:
    """Return the first format that recognizes a location, or `None`."""
    formats = (CheckpointFormat.by_name(name)() for name in CheckpointFormat.list_available())
    return next((form for form in formats if form.recognises(location)), None)


def _found_in(path: Path, name: str) -> tuple[CheckpointFormat, Path]:
    """Return the format of a folder, or of the only folder inside it that holds a biLM, and the folder itself.

    Errors call the path `name`. Raises `ConfigurationError` that lists what was expected and what is there.
    """
    content = [path / inner for inner in names_in(path)]
    places = [path, *(inner for inner in content if inner.is_dir())]
    found = [(form, place) for place in places if (form := _format_of(place)) is not None]
    if found and (found[0][1] == path or len(found) == 1):
        return found[0]
    if found:
        inside = ", ".join(place.name for _, place in found[:MOST_NAMES])
        raise ConfigurationError(f"'{name}': expected one folder with a biLM, got {inside}; name one of them")
    formats = {form: CheckpointFormat.resolve_class_name(form)[0] for form in CheckpointFormat.list_available()}
    looked_for = ", ".join(f"{cls.looks_for} ({form})" for form, cls in formats.items())
    if name.endswith(".th"):
        got = "weights without their config; name the folder that they are in, or a model.tar.gz"
    elif path.is_dir():
        names = ", ".join(f"{file.name}/" if file.is_dir() else file.name for file in content[:MOST_NAMES])
        got = f"a folder with {names or 'nothing in it'}{' …' if len(content) > MOST_NAMES else ''}"
    else:
        kind = kind_of(path) or "another file"
        got = kind + ADVICE.get(kind, "")
    raise ConfigurationError(f"'{name}' holds no biLM: expected {looked_for}; got {got}")


def build_bilm(checkpoint: Checkpoint, kernel: str = "auto", source: Location = "") -> BiLM:
    """Build a biLM with the sizes and the weights of a checkpoint.

    Raises `ConfigurationError` if the weights do not fit the sizes.
    """
    weights = dict(checkpoint.state_dict)
    contextualizer, width = checkpoint.options.contextualizer, checkpoint.options.lstm.projection_dim
    if contextualizer is not None:
        stored = sum(weight.numel() for name, weight in weights.items() if name.startswith("lstm."))
        check_size(contextualizer, width, stored)
    bilm = BiLM(checkpoint.options, kernel, fspath(source))
    if "warm_hidden" in weights or "warm_cell" in weights:
        bilm.warm_state = bilm.zero_state(1, next(bilm.parameters()))  # filled below
    weights.setdefault(EXTRA_STATE, bilm.get_extra_state())
    try:
        bilm.load_state_dict(weights)
    except RuntimeError as error:  # for example from version 0.1, trained with a 'contextualizer' of its own
        raise ConfigurationError(
            f"'{fspath(source)}': expected the weights of a biLM of {checkpoint.options}, got others: {error}"
        ) from error
    return bilm
