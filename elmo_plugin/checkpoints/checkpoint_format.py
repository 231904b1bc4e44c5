"""What a format of ELMo weights is, and how a biLM is made from one."""

from abc import ABC, abstractmethod
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from torch import Tensor

from elmo_plugin.bilm import BiLM
from elmo_plugin.kernels import LstmState
from elmo_plugin.options import BiLMOptions

Location = Union[str, "PathLike[str]"]
BUNDLED = Path(__file__).parent / "bundled"


class SavedSoftmax(NamedTuple):
    """The softmax that a biLM was trained with: its block of the config, and its weights by its own names."""

    config: dict[str, Any]
    state_dict: dict[str, Tensor]


class Checkpoint(NamedTuple):
    """Sizes and weights together, so that no module is ever half loaded. `state_dict` has `BiLM`'s own names.

    What the biLM was trained with comes along where the files hold it: its softmax, and the lines of bilm-tf's
    vocabulary file, `<S>`, `</S>`, `<UNK>` and the words by falling count.
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
    return _format_of(location).read(location)


def load_sizes(location: Location) -> BiLMOptions:
    """Read the sizes of such a biLM. Raises `ConfigurationError` if no format knows it."""
    return _format_of(location).read_sizes(location)


def _format_of(location: Location) -> CheckpointFormat:
    formats = {name: CheckpointFormat.by_name(name)() for name in CheckpointFormat.list_available()}
    missing = is_missing(location)
    for candidate in formats.values():
        if not missing and candidate.recognises(location):
            return candidate
    found = "nothing is there" if missing else "none of them"
    if missing and Path(location).name == fspath(location):
        found += f"; the bundled biLMs are: {', '.join(bundled_names()) or 'none'}"
    raise ConfigurationError(
        f"'{fspath(location)}' holds no biLM: wanted one of the formats {', '.join(formats)}, found {found}"
    )


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
        return Path(cached_path(location))
    except (FileNotFoundError, ValueError, OSError) as error:
        raise ConfigurationError(f"'{key}' is '{fspath(location)}', which cannot be had: {error}") from error


def is_missing(location: Location) -> bool:
    """Whether a path leads nowhere; a URL is taken to lead somewhere, and the name of a bundled biLM does."""
    return "://" not in fspath(location) and not Path(location).exists() and bundled_folder(location) is None


def bundled_names() -> list[str]:
    """The biLMs that come with the package, which `pretrained` takes by name."""
    return sorted({path.parent.name for path in BUNDLED.glob("*/*.safetensors")})


def bundled_folder(location: Location) -> Optional[Path]:
    """The folder of a biLM that comes with the package; `None` for other names and where a local path has its name."""
    name = fspath(location)
    return BUNDLED / name if name in bundled_names() and not Path(name).exists() else None
