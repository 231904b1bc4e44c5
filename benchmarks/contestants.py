"""Who computes ELMo vectors: AllenNLP's `Elmo`, and ours with each kernel and precision. All read the same files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from allennlp.modules.elmo import Elmo as AllenNlpElmo
from allennlp.modules.encoder_base import _EncoderBase
from torch import Tensor, nn

from elmo_plugin.bilm import BiLM, ElmoLstm
from elmo_plugin.bilm.precision import PRECISIONS
from elmo_plugin.elmo import Elmo
from elmo_plugin.lstm import KERNELS
from elmo_plugin.options import LstmOptions


class Embedder(Protocol):
    """A contestant with its weights."""

    def embed(self, ids: Tensor) -> Tensor:
        """Character ids (B, T, C) to what a user gets: one vector a token, (B, T, D)."""

    def layers(self, ids: Tensor) -> Tensor:
        """All layers, boundaries included, (L, B, T + 2, D), in float32."""

    def forget(self) -> None:
        """Begin anew: whatever earlier batches left is gone."""


class Contestant(Protocol):
    """A name and a recipe, small enough to be sent to another process."""

    @property
    def name(self) -> str:
        """As a table says it."""

    @property
    def precision(self) -> str:
        """`float32` or `bfloat16`."""

    def load(self, files: Path, device: torch.device) -> Embedder:
        """Read the weights."""


@dataclass(frozen=True)
class AllenNlp:
    """`allennlp.modules.elmo.Elmo`: what ours is compared with."""

    name: str = "AllenNLP"
    precision: str = "float32"

    def load(self, files: Path, device: torch.device) -> Embedder:
        """Read the weights."""
        return LoadedAllenNlp(files, device)


class LoadedAllenNlp:
    """AllenNLP's `Elmo` with one output and no dropout."""

    def __init__(self, files: Path, device: torch.device) -> None:
        options_file, weight_file = pair(files)
        self.elmo: Any = AllenNlpElmo(options_file, weight_file, 1, dropout=0.0).to(device).eval()

    @torch.no_grad()
    def embed(self, ids: Tensor) -> Tensor:
        """(B, T, C) to (B, T, D)."""
        representation: Tensor = self.elmo(ids)["elmo_representations"][0]
        return representation

    @torch.no_grad()
    def layers(self, ids: Tensor) -> Tensor:
        """(B, T, C) to (L, B, T + 2, D), from zeros."""
        self.forget()
        return torch.stack(self.elmo._elmo_lstm(ids)["activations"])

    def forget(self) -> None:
        """The state of the last batch."""
        forget(self.elmo)


@dataclass(frozen=True)
class Ours:
    """`elmo_plugin.elmo.Elmo` with one kernel and one precision."""

    kernel: str = "auto"
    precision: str = "float32"

    @property
    def name(self) -> str:
        """As a table says it."""
        return f"ours, `{self.kernel}`, {self.precision}"

    def load(self, files: Path, device: torch.device) -> Embedder:
        """Read the weights."""
        return LoadedOurs(self, files, device)


class LoadedOurs:
    """Our `Elmo` with one output and no dropout."""

    def __init__(self, contestant: Ours, files: Path, device: torch.device) -> None:
        options_file, weight_file = pair(files)
        elmo = Elmo(options_file, weight_file, dropout=0.0, kernel=contestant.kernel, precision=contestant.precision)
        self.elmo = elmo.to(device).eval()

    @torch.no_grad()
    def embed(self, ids: Tensor) -> Tensor:
        """(B, T, C) to (B, T, D)."""
        representation: Tensor = self.elmo(ids).representations[0]
        return representation

    @torch.no_grad()
    def layers(self, ids: Tensor) -> Tensor:
        """(B, T, C) to (L, B, T + 2, D)."""
        return self.elmo.run_bilm(ids)[0]

    def forget(self) -> None:
        """Words that were computed before."""
        forget(self.elmo)


def embed_all(embedder: Embedder, batches: Sequence[Tensor]) -> None:
    """One batch after the other, keeping nothing."""
    for ids in batches:
        embedder.embed(ids)


def forget(model: nn.Module) -> None:
    """Empty what is left of earlier batches: the words that a frozen biLM of ours keeps, the state that AllenNLP's
    LSTM carries."""
    for module in model.modules():
        if isinstance(module, BiLM):
            forget_words(module)
        elif isinstance(module, _EncoderBase):
            module.reset_states()


def forget_words(bilm: BiLM) -> None:
    """Empty the memo of words that a frozen biLM keeps, so that every word is new to it."""
    bilm.word_cache.clear()


def pair(files: Path) -> tuple[str, str]:
    """The options and the weight file."""
    return str(files / "options.json"), str(files / "weights.hdf5")


def everyone(device: torch.device) -> list[Contestant]:
    """AllenNLP, and ours with each kernel that runs on this device, in each precision that it knows."""
    ours = [Ours(kernel, precision) for precision in PRECISIONS for kernel in KERNELS]
    return [AllenNlp(), *(contestant for contestant in ours if runs(contestant, device))]


def the_default() -> list[Contestant]:
    """AllenNLP, and ours as it is without a word about kernels, in each precision."""
    return [AllenNlp(), *(Ours("auto", precision) for precision in PRECISIONS)]


@torch.no_grad()
def runs(contestant: Ours, device: torch.device) -> bool:
    """Whether a kernel runs on this device in this precision, found by running it on two short sentences."""
    like: dict[str, Any] = {"device": device, "dtype": PRECISIONS[contestant.precision]}
    try:
        lstm = ElmoLstm(LstmOptions(cell_dim=64, projection_dim=32), kernel=contestant.kernel).to(**like)
        lstm(torch.zeros(2, 3, 32, **like), torch.ones(2, 3, device=device, dtype=torch.bool))
    except (ImportError, NotImplementedError, RuntimeError, ValueError):
        return False
    return True
