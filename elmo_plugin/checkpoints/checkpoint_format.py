"""What a format of ELMo weights is, and how a biLM is made from one."""

from abc import ABC, abstractmethod
from os import PathLike, fspath
from os.path import expanduser
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union
from urllib.parse import unquote

from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from torch import Tensor

from elmo_plugin.bilm import BiLM
from elmo_plugin.checkpoints.file_kind import HDF5, JSON, kind_of
from elmo_plugin.lstm import LstmState
from elmo_plugin.options import BiLMOptions

Location = Union[str, "PathLike[str]"]
BUNDLED = Path(__file__).parent / "bundled"
MOST_NAMES = 10
"""Names of files that an error lists."""
ADVICE = {HDF5: "; its name must end with .hdf5", JSON: "; name the weights that belong to it, or their folder"}


class SavedSoftmax(NamedTuple):
    """The softmax that a biLM was trained with: its block of the config, and its weights by its own names."""

    config: dict[str, Any]
    state_dict: dict[str, Tensor]


class Checkpoint(NamedTuple):
    """Sizes and weights together, so that no module is ever half loaded. `state_dict` has `BiLM`'s own names.

    What the biLM was trained with comes along where the files hold it: its softmax, and the lines of its vocabulary
    file. These usually begin with `<S>`, `</S>` and `<UNK>`, as bilm-tf's README wants it; where the biLM reads words,
    `word_table.with_vocabulary` looks up where they are.
    """

    options: BiLMOptions
    state_dict: dict[str, Tensor]
    softmax: Optional[SavedSoftmax] = None
    vocabulary: Optional[list[str]] = None


class CheckpointFormat(ABC, Registrable):
    """A way to keep a biLM in files."""

    @abstractmethod
    def recognises(self, location: Location) -> bool:
        """Whether a path or URL looks like this format; no reading beyond names."""

    @abstractmethod
    def read(self, location: Location) -> Checkpoint:
        """Read it. Raises `ConfigurationError` that names the file, what was found and what was wanted."""

    def read_sizes(self, location: Location) -> BiLMOptions:
        """Read the sizes of the biLM, without its weights where they can be told apart."""
        return self.read(location).options


def load_checkpoint(location: Location) -> Checkpoint:
    """Read a biLM in whatever format `location` holds, or the bundled one of that name.

    Raises `ConfigurationError` if no format knows it.
    """
    return _format_of(location).read(plain_location(location))


def load_sizes(location: Location) -> BiLMOptions:
    """Read the sizes of such a biLM. Raises `ConfigurationError` if no format knows it."""
    return _format_of(location).read_sizes(plain_location(location))


def _format_of(location: Location) -> CheckpointFormat:
    name = plain_location(location)
    if is_missing(name):
        bundled = f"; the bundled biLMs are: {', '.join(bundled_names()) or 'none'}" if Path(name).name == name else ""
        raise ConfigurationError(f"'{name}' holds no biLM: there is no such file or folder{bundled}")
    formats = {format: CheckpointFormat.by_name(format)() for format in CheckpointFormat.list_available()}
    for candidate in formats.values():
        if candidate.recognises(name):
            return candidate
    raise ConfigurationError(
        f"'{name}' holds no biLM: expected one of the formats {', '.join(formats)}, got {_contents(Path(name))}"
    )


def _contents(path: Path) -> str:
    """What is found in place of a biLM."""
    if path.suffix == ".th":
        return "weights without their config; name the folder that they are in, or a model.tar.gz"
    if not path.is_dir():
        kind = kind_of(path) or "another file"
        return kind + ADVICE.get(kind, "")
    names = sorted(file.name for file in path.iterdir())
    return f"a folder with {', '.join(names[:MOST_NAMES]) or 'nothing in it'}{' …' if len(names) > MOST_NAMES else ''}"


def build_bilm(checkpoint: Checkpoint, kernel: str = "auto", source: Location = "") -> BiLM:
    """A biLM of the checkpoint's sizes with all of its weights. Raises `ConfigurationError` if they are another's."""
    weights = dict(checkpoint.state_dict)
    bilm = BiLM(checkpoint.options, kernel, fspath(source))
    if "warm_hidden" in weights:
        bilm.warm_state = LstmState(weights["warm_hidden"].clone(), weights["warm_cell"].clone())
    weights.setdefault("_extra_state", bilm.get_extra_state())
    try:
        bilm.load_state_dict(weights)
    except RuntimeError as error:  # as of a language model that was trained with a 'contextualizer' of its own
        raise ConfigurationError(
            f"'{fspath(source)}' holds weights that are not those of a biLM of {checkpoint.options}: {error}"
        ) from error
    return bilm


def local_file(location: Location, key: str) -> Path:
    """The file of a path or URL, fetched if need be. Raises `ConfigurationError` naming `key` if it cannot be had."""
    try:
        return Path(cached_path(plain_location(location)))
    except (FileNotFoundError, ValueError, OSError) as error:
        raise ConfigurationError(f"'{key}' is '{fspath(location)}', which cannot be had: {error}") from error


def plain_location(location: Location) -> str:
    """Return a `file:` URL or a path with `~` as a plain path, without a slash at its end; other URLs as they are."""
    name = fspath(location)
    is_file_url = name.startswith("file://")
    if is_file_url:
        name = name.removeprefix("file://")
        name = name.removeprefix("localhost") if name.startswith("localhost/") else name
        name = name.removeprefix("/") if name.startswith("/~") else name
    if "://" in name:
        return name
    path = expanduser(name).rstrip("/") or name
    return unquote(path) if is_file_url and not Path(path).exists() else path


def is_missing(location: Location) -> bool:
    """Whether a path leads nowhere; a URL is taken to lead somewhere, and the name of a bundled biLM does."""
    name = plain_location(location)
    return "://" not in name and not (name and Path(name).exists()) and bundled_folder(name) is None


def bundled_names() -> list[str]:
    """The biLMs that come with the package, which `pretrained` takes by name."""
    return sorted({path.parent.name for path in BUNDLED.glob("*/*.safetensors")})


def bundled_folder(location: Location) -> Optional[Path]:
    """The folder of a biLM that comes with the package; `None` for other names and where a local path has its name."""
    name = fspath(location)
    return BUNDLED / name if name in bundled_names() and not Path(name).exists() else None
