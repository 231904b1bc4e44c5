"""What the files of a biLM hold, the interface of a format that reads them, and where they are.

A biLM is found by its path, URL or bundled name, and the first bytes of a file tell of what kind it is.
"""

import re
import shlex
from abc import ABC, abstractmethod
from enum import Enum
from os import PathLike, fspath, listdir

# `os.path.exists` and the like return False where the methods of `Path` raise: for a name that is too long.
from os.path import exists, expanduser, isdir, isfile
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Optional, Union
from urllib.parse import unquote

from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from torch import Tensor

from elmo_plugin.bilm import BiLMOptions, count_parameters
from elmo_plugin.common import named_errors, read_json

Location = Union[str, "PathLike[str]"]
"""A path, a URL or the name of a bundled biLM."""

BUNDLED = Path(__file__).parent / "bundled"
HUB = "hf://"
"""How the locations of repositories of the Hugging Face Hub begin: `hf://user/model` or `hf://user/model/file`."""


class SavedSoftmax(NamedTuple):
    """Hold the softmax that a biLM was trained with: its block of the config and its state dict."""

    config: dict[str, Any]
    state_dict: dict[str, Tensor]


class Checkpoint(NamedTuple):
    """Hold the sizes and the weights of a biLM together, so that no module is ever half loaded.

    `state_dict` has the names of `BiLM`. `vocabulary` is the lines of the vocabulary file, which usually begins with
    `<S>`, `</S>` and `<UNK>`, as bilm-tf's README recommends.

    >>> from elmo_plugin.checkpoints import load_checkpoint
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
        return count_parameters(self.options)


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
        raise ConfigurationError(f"'options_file': expected none for '{location}', which holds its sizes")

    def read_sizes(self, location: Location) -> BiLMOptions:
        """Read the sizes of a biLM, without its weights if the format allows that."""
        return self.read(location).options


class FileKind(Enum):
    """What a file is by its first bytes. The values are the words of error messages."""

    FOLDER = "a directory"
    DEVICE = "a device or a pipe"
    EMPTY = "an empty file"
    HDF5 = "an hdf5 file"
    JSON = "a JSON text; name the weights that belong to it, or their folder"
    ZIP = "a zip file"
    TORCH = (
        "a PyTorch file, which holds weights without their sizes; name the folder that `train` wrote it in, or its "
        "model.tar.gz. A state dict of AllenNLP's `Elmo` is loaded into an `elmo_plugin.Elmo` that is built with the "
        "options file, and saved by `elmo_plugin.save`"
    )
    GZIP = "a file compressed with gzip; unpack it with `gunzip`, or with `tar -xzf` if it is an archive"
    XZ = "a file compressed with xz; unpack it with `unxz`"
    LFS = "a pointer of Git LFS; fetch the file itself with `git lfs pull`"
    HTML = "an HTML page, such as one that reports an error; download the file again"
    OTHER = "another file"


SIGNATURES = {
    rb"\Z": FileKind.EMPTY,
    rb"\x89HDF\r\n\x1a\n": FileKind.HDF5,
    rb"\x1f\x8b": FileKind.GZIP,
    rb"\xfd7zXZ\x00": FileKind.XZ,
    rb"PK\x03\x04": FileKind.ZIP,
    rb"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19\.": FileKind.TORCH,
    rb"version https://git-lfs": FileKind.LFS,
    rb"(\xef\xbb\xbf)?\s*<[^\0]*\Z": FileKind.HTML,
    rb"(\xef\xbb\xbf)?\s*[{\[][^\0]*\Z": FileKind.JSON,
}


def plain_location(location: Location) -> str:
    """Return the path of a local location, without a trailing slash: a `file:` URL, a path with `~`, or a bundled name.

    Other URLs stay as they are.
    """
    name = fspath(location)
    if (folder := bundled_folder(name)) is not None:
        return str(next(folder.glob("*.safetensors")))
    if "://" in name.removeprefix("file://"):
        return name.rstrip("/") if name.startswith(HUB) else name
    path = expanduser(name.removeprefix("file://")).rstrip("/") or name
    return unquote(path) if name.startswith("file://") and not exists(path) else path


def local_file(location: Location, key: str) -> Path:
    """Return the local path of a file or folder. A URL, or a repository of the Hugging Face Hub, is downloaded.

    Raises `ConfigurationError` that names `key` if the file does not exist or cannot be downloaded, and for a device or
    a pipe, which may be endless.
    """
    name = plain_location(location)
    try:
        # The Hub's files are kept in the Hub's own cache, which `hf download` uses too, and not in AllenNLP's.
        # A local path needs no cache, whose folder cannot be made in a home that is read-only.
        if name.startswith(HUB):
            from cached_path import cached_path as of_hub  # imports the clients of clouds, a third of PyTorch's time

            path = of_hub(name)
        else:
            path = Path(name if exists(name) else cached_path(name))
    except Exception as error:  # each kind of URL is downloaded with another library, which has errors of its own
        why = "there is no such file" if str(error) == name else " ".join(str(error).split())
        why = unfinished_run(name) or why
        if name.startswith(HUB):
            repository = "/".join(name.removeprefix(HUB).split("/")[:2])
            why += (
                f"; log in with `hf auth login` if the repository {repository} is private; without a network, run "
                f"`hf download {repository} --local-dir FOLDER` where there is one, copy the folder here, and name it"
            )
        raise ConfigurationError(f"'{key}' is '{location}', which cannot be read: {why}") from error
    if file_kind(path) is FileKind.DEVICE:
        raise ConfigurationError(f"'{key}' is '{location}': expected a file or a folder, got {FileKind.DEVICE.value}")
    return path


def unfinished_run(name: str) -> Optional[str]:
    """Return how to go on with the run whose missing archive or weights a path names; `None` for other paths."""
    folder = Path(name) if isdir(name) else Path(name).parent
    has_weights = exists(name) and any(exists(folder / weights) for weights in ("best.th", "weights.th"))
    if has_weights or isfile(name) or not exists(folder / "config.json") or not exists(folder / "meta.json"):
        return None
    if exists(archive := folder / "model.tar.gz"):
        return f"the archive of the run in '{folder}' is '{archive}'"
    how = shlex.join(["elmo-plugin", "train", str(folder / "config.json"), "-s", str(folder), "--recover"])
    return f"the run in '{folder}' is unfinished; continue it with: {how}"


def is_missing(location: Location) -> bool:
    """Return whether a location is neither an existing path, nor a URL, nor the name of a bundled biLM."""
    name = plain_location(location)
    return "://" not in name and not exists(name)


def names_in(location: Location) -> list[str]:
    """Return the names in a folder in order, without hidden ones; an empty list for a file or a URL."""
    name = fspath(location)
    is_folder = "://" not in name and isdir(name)
    return sorted(inner for inner in listdir(name) if not inner.startswith(".")) if is_folder else []


def file_in(folder: Path, name: str) -> Path:
    """Return the path of a file of a folder.

    Raises `ConfigurationError` for a link that leads out of the folder: it could lead to any file of this machine. In
    the cache of the Hugging Face Hub, the files in `snapshots` are links into the folder `blobs` beside it.
    """
    path = folder / name
    # A link may lead to itself, and a config may hold a name that no file may have.
    with named_errors(f"'{path}' cannot be read", OSError, RuntimeError, ValueError):
        real, inside = path.resolve(), [folder.resolve()]
    inside += [parent.parent / "blobs" for parent in inside[0].parents if parent.name == "snapshots"]
    if not any(real.is_relative_to(place) for place in inside):
        raise ConfigurationError(
            f"'{path}': expected a file of its folder, got a link that leads out of it, to '{real}'; put the file "
            "itself there"
        )
    return path


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file. Raises `ConfigurationError` that names the file if it holds none."""
    with named_errors(f"'{path}' cannot be read", OSError, ValueError):
        return read_json(path)


def bundled_names() -> list[str]:
    """Return the names of the biLMs that come with the package."""
    return sorted({path.parent.name for path in BUNDLED.glob("*/*.safetensors")})


def bundled_folder(location: Location) -> Optional[Path]:
    """Return the folder of a bundled biLM, or `None` for other names. A local path of that name takes precedence."""
    is_bundled = str(Path(location)) in bundled_names() and not exists(location)
    return BUNDLED / location if is_bundled else None


def why_unread(path: Path, error: Exception, *kinds: FileKind) -> str:
    """Return why a file cannot be read: what it is, if it is of none of these kinds, or else the error."""
    kind = file_kind(path)
    return f"{error}" if kind in (FileKind.OTHER, *kinds) else f"it is {kind.value}"


def file_kind(path: Path) -> FileKind:
    """Return what a file is, judged by its first bytes."""
    if isdir(path):
        return FileKind.FOLDER
    if exists(path) and not isfile(path):
        return FileKind.DEVICE
    try:
        with path.open("rb") as file:
            first = file.read(512)
    except OSError:
        return FileKind.OTHER
    return next((kind for signature, kind in SIGNATURES.items() if re.match(signature, first)), FileKind.OTHER)
