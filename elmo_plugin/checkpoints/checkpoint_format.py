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

from elmo_plugin.bilm import BiLMOptions
from elmo_plugin.checkpoints.files import (
    FileKind,
    Location,
    bundled_names,
    file_kind,
    is_missing,
    local_file,
    names_in,
    plain_location,
    unfinished_run,
)
from elmo_plugin.checkpoints.untrusted import is_tar_gz, printable_errors, unpacked

MOST_NAMES = 10
"""The largest number of file names that an error lists."""
EXTRA_STATE = "_extra_state"
"""PyTorch's name in a state dict for what a module says about itself."""
STATE_DICTS = (".th", ".pth", ".pt", ".bin", ".ckpt", ".pkl")
"""The endings of the names that people give to files of `torch.save`."""
ADVICE = {
    FileKind.HDF5: "an hdf5 file; its name must end with .hdf5",
    FileKind.JSON: "a JSON text; name the weights that belong to it, or their folder",
}


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
    """

    options: BiLMOptions
    state_dict: dict[str, Tensor]
    softmax: Optional[SavedSoftmax] = None
    vocabulary: Optional[list[str]] = None

    @property
    def n_parameters(self) -> int:
        """Return the number of parameters of the biLM."""
        others = (EXTRA_STATE, "warm_hidden", "warm_cell")
        return sum(tensor.numel() for name, tensor in self.state_dict.items() if name not in others)


class CheckpointFormat(ABC, Registrable):
    """Read a biLM from files of one format.

    A format of your own writes `recognises`, which must not be true for the files of another format, and `read`. What
    is wrong with a file is a `ConfigurationError` that names the file: `'file', 'key': expected X, got Y`. A file may
    come from a stranger, so reading it must not run code in it, nor take more memory than its size allows. The names
    and shapes of the tensors are compared with the sizes afterwards. See docs/extend.md.
    """

    looks_for: ClassVar[str]
    """The files that `recognises` looks for in a folder, as errors list them."""

    @abstractmethod
    def recognises(self, location: Location) -> bool:
        """Return whether a path or URL looks like this format, by its name or the names in the folder."""

    @abstractmethod
    def read(self, location: Location) -> Checkpoint:
        """Read a biLM. Raises `ConfigurationError` that names the file if it cannot be read."""

    def read_with(self, location: Location, options_file: Location) -> Checkpoint:
        """Read a biLM with the sizes in an options file. Raises `ConfigurationError` if the files hold its sizes."""
        raise ConfigurationError(f"'options_file': expected none for '{fspath(location)}', which holds its sizes")

    def read_sizes(self, location: Location) -> BiLMOptions:
        """Read the sizes of a biLM, without its weights if the format allows that."""
        return self.read(location).options


@printable_errors()
def load_checkpoint(location: Location, options_file: Optional[Location] = None) -> Checkpoint:
    """Read a biLM in any format: a file, a folder, a zip file or `.tar.gz` of either, or the name of a bundled biLM.

    `options_file` has the sizes for weights without them: those of AllenNLP's own ELMo in an archive, and bilm-tf's.
    Raises `ConfigurationError` if no format recognizes the location.
    """
    with _opened(location) as (form, place):
        return form.read(place) if options_file is None else form.read_with(place, options_file)


@printable_errors()
def load_sizes(location: Location) -> BiLMOptions:
    """Read the sizes of a biLM in any format; see `load_checkpoint`.

    Raises `ConfigurationError` if no format recognizes the location.
    """
    with _opened(location) as (form, place):
        return form.read_sizes(place)


@contextmanager
def _opened(location: Location) -> Iterator[tuple[CheckpointFormat, Location]]:
    """Give the format of a location and the path to read. An archive is unpacked until the context ends."""
    name = plain_location(location)
    if is_missing(name):
        bundled = f"; the bundled biLMs are: {', '.join(bundled_names()) or 'none'}" if Path(name).name == name else ""
        why = unfinished_run(name) or f"there is no such file or folder{bundled}"
        raise ConfigurationError(f"'{name}' holds no biLM: {why}")
    form = _format_of(name, name)
    if form is not None:
        yield form, name
        return
    path = local_file(name, "pretrained")
    kind = file_kind(path)
    if kind is FileKind.TORCH or (kind in (FileKind.ZIP, FileKind.OTHER) and name.endswith(STATE_DICTS)):
        raise ConfigurationError(
            f"'{name}' holds no biLM: expected weights and their sizes, got a PyTorch file, which holds weights alone; "
            "name the folder that `train` wrote it in, or its model.tar.gz. A state dict of AllenNLP's `Elmo` "
            "is loaded into an `elmo_plugin.Elmo` that is built with the options file, and saved by `elmo_plugin.save`"
        )
    is_archive = kind is FileKind.ZIP or (kind is FileKind.GZIP and is_tar_gz(path))
    with unpacked(path, name) if is_archive else nullcontext(path) as place:
        yield _found_in(place, name)


def _format_of(location: Location, name: str) -> Optional[CheckpointFormat]:
    """Return the format that recognizes a location; `None` if none does.

    Raises `ConfigurationError`, which calls the location `name`, if several do.
    """
    available = CheckpointFormat.list_available()
    found = {key: form for key in available if (form := CheckpointFormat.by_name(key)()).recognises(location)}
    if len(found) > 1:
        wanted = ", ".join(f"{found[key].looks_for} ({key})" for key in sorted(found))
        raise ConfigurationError(
            f"'{name}': expected one biLM, got several: {wanted}; name one of the files, or move the others"
        )
    return next(iter(found.values()), None)


def _found_in(path: Path, name: str) -> tuple[CheckpointFormat, Path]:
    """Return the format of a folder, or of the only folder inside it that holds a biLM, and the folder itself.

    Errors call the path `name`. Raises `ConfigurationError` that lists what was expected and what is there.
    """
    form = _format_of(path, name)
    if form is not None:
        return form, path
    content = [path / inner for inner in names_in(path)]
    places = {place: f"{name}/{place.name}" for place in content if place.is_dir()}
    found = [(form, place) for place, inner in places.items() if (form := _format_of(place, inner)) is not None]
    if len(found) == 1:
        return found[0]
    if found:
        inside = ", ".join(place.name for _, place in found[:MOST_NAMES])
        raise ConfigurationError(f"'{name}': expected one folder with a biLM, got {inside}; name one of them")
    formats = {form: CheckpointFormat.resolve_class_name(form)[0] for form in sorted(CheckpointFormat.list_available())}
    looked_for = ", ".join(f"{cls.looks_for} ({form})" for form, cls in formats.items())
    kind = file_kind(path)
    names = [f"{file.name}/" if file.is_dir() else file.name for file in content]
    if {"saved_model.pb", "tfhub_module.pb"} & set(names):
        got = "a module of TensorFlow Hub, which cannot be read; use the same biLM in bilm-tf's format"
    elif any(".ckpt" in inner or inner == "checkpoint" for inner in names):
        got = (
            "a checkpoint of TensorFlow, which cannot be read; bilm-tf's `bin/dump_weights.py` writes its weights.hdf5"
        )
    elif "model.tar.gz" in names:
        got = f"a folder that holds it; name '{name}/model.tar.gz'"
    elif kind is FileKind.FOLDER:
        more = " …" if len(names) > MOST_NAMES else ""
        got = f"a folder with {', '.join(names[:MOST_NAMES]) or 'nothing in it'}{more}"
    else:
        got = ADVICE.get(kind, kind.value)
    why = unfinished_run(name) or f"expected {looked_for}; got {got}"
    raise ConfigurationError(f"'{name}' holds no biLM: {why}")
