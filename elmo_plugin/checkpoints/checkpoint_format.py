"""The interface of a checkpoint format, and what a format reads."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Optional

from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm import BiLMOptions, count_parameters
from elmo_plugin.checkpoints.files import Location

BILM, SOFTMAX = "bilm.", "softmax."
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
