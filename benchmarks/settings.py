"""The settings that every benchmark receives."""

from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.text import Text
from elmo_plugin.bilm import BiLMOptions


class Settings(NamedTuple):
    """The command line, parsed and checked.

    # Parameters

    size : `str`
        The name of the biLM's size.
    options : `BiLMOptions`
        The sizes of that biLM.
    files : `Path`
        The folder with the weights that all systems read, in bilm-tf's format.
    device : `torch.device`
    text : `Text`
    tokens : `int`
        The number of tokens of the corpus.
    repeats : `int`
        The number of rounds; each round runs every system once.
    plot : `Path`
        The file that `growth` writes its plot to.
    """

    size: str
    options: BiLMOptions
    files: Path
    device: torch.device
    text: Text
    tokens: int
    repeats: int
    plot: Path

    @property
    def long_repeats(self) -> int:
        """Return the number of rounds for benchmarks whose rounds take minutes."""
        return min(self.repeats, 3)
