"""What a subject is told: sizes, device, text, and how often."""

from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.text import Text
from elmo_plugin.options import BiLMOptions


class Settings(NamedTuple):
    """What the command line says, read and checked.

    # Parameters

    size : `str`
        A key of `sizes.SIZES`.
    options : `BiLMOptions`
        The sizes that it stands for.
    files : `Path`
        Folder with the weights of all contestants, a bilm-tf pair.
    device : `torch.device`
    text : `Text`
    tokens : `int`
        N, of the corpus.
    repeats : `int`
        Rounds, each of which runs every contestant once.
    plot : `Path`
        The file that `growth` draws into.
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
        """Rounds where one of them takes minutes."""
        return min(self.repeats, 3)
