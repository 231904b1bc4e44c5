"""The systems compared: AllenNLP's `Elmo`, and ours with each kernel and precision. All read the same weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Protocol

import torch
from allennlp.modules.elmo import Elmo as AllenNlpElmo
from allennlp.modules.encoder_base import _EncoderBase
from torch import Tensor, nn

from elmo_plugin.bilm import BiLM, ElmoLstm, LstmOptions, precision_on
from elmo_plugin.elmo import Elmo
from elmo_plugin.lstm import KERNELS
from elmo_plugin.tensors import NUMBER_TYPES

PRECISIONS = {name: NUMBER_TYPES[name] for name in ("float32", "bfloat16")}


class Embedder(Protocol):
    """A system with its weights loaded. It takes ids on the CPU, where they are made."""

    def embed(self, ids: Tensor) -> Tensor:
        """Return one vector per token, as a user gets them: (B, T, C) to (B, T, D)."""

    def layers(self, ids: Tensor) -> Tensor:
        """Return all layers in float32, with boundaries: (B, T, C) to (L, B, T + 2, D)."""

    def clear(self) -> None:
        """Clear what earlier batches left: cached words, or the LSTM state."""


@dataclass(frozen=True)
class System:
    """One way to compute ELMo vectors. It can be sent to another process.

    # Parameters

    kernel : `Optional[str]`
        The name of one of our kernels; `None` for AllenNLP's `Elmo`.
    precision : `str`
        `float32`, `bfloat16` or `int8`.
    """

    kernel: Optional[str] = "auto"
    precision: str = "float32"

    @property
    def name(self) -> str:
        return "AllenNLP" if self.kernel is None else f"ours, `{self.kernel}`, {self.precision}"

    def load(self, files: Path, device: torch.device) -> Embedder:
        """Read the weights."""
        return AllenNlpEmbedder(files, device) if self.kernel is None else OurEmbedder(self, files, device)


ALLENNLP = System(kernel=None)
OURS = System()
INT8 = System(precision="int8")


class AllenNlpEmbedder:
    """AllenNLP's `Elmo` with one output and no dropout."""

    def __init__(self, files: Path, device: torch.device) -> None:
        self.device = device
        self.elmo: Any = AllenNlpElmo(*weight_files(files).values(), 1, dropout=0.0).to(device).eval()

    @torch.no_grad()
    def embed(self, ids: Tensor) -> Tensor:
        representation: Tensor = self.elmo(ids.to(self.device))["elmo_representations"][0]
        return representation

    @torch.no_grad()
    def layers(self, ids: Tensor) -> Tensor:
        self.clear()
        return torch.stack(self.elmo._elmo_lstm(ids.to(self.device))["activations"])

    def clear(self) -> None:
        clear(self.elmo)


class OurEmbedder:
    """Our `Elmo` with one output and no dropout."""

    def __init__(self, system: System, files: Path, device: torch.device) -> None:
        elmo = Elmo(**weight_files(files), dropout=0.0, kernel=str(system.kernel), precision=system.precision)
        self.elmo = elmo.to(device).eval()

    @torch.no_grad()
    def embed(self, ids: Tensor) -> Tensor:
        return self.elmo(ids).representations[0]

    @torch.no_grad()
    def layers(self, ids: Tensor) -> Tensor:
        return self.elmo.layers(ids)[0]

    def clear(self) -> None:
        clear(self.elmo)


def embed_all(embedder: Embedder, batches: Sequence[Tensor]) -> None:
    """Embed one batch after the other and drop the vectors."""
    for ids in batches:
        embedder.embed(ids)


def clear(model: nn.Module) -> None:
    """Clear the word cache of our biLM, and the LSTM state that AllenNLP carries from batch to batch."""
    for module in model.modules():
        if isinstance(module, BiLM):
            module.word_cache.clear()
        elif isinstance(module, _EncoderBase):
            module.reset_states()


def weight_files(folder: Path) -> dict[str, str]:
    """Return the two files of a biLM under the names that AllenNLP's ELMo and ours give them."""
    return {"options_file": str(folder / "options.json"), "weight_file": str(folder / "weights.hdf5")}


def default_systems(device: torch.device) -> list[System]:
    """Return AllenNLP, and ours with its default kernel in each precision that this device computes."""
    return [ALLENNLP, *(System(precision=precision) for precision in PRECISIONS), *int8_systems(device)]


def all_systems(device: torch.device) -> list[System]:
    """Return AllenNLP, and ours with each kernel and precision that run on this device."""
    kernels = KERNELS if device.type == "cpu" else ("auto", "packed")
    ours = [System(kernel, precision) for precision in PRECISIONS for kernel in kernels]
    return [ALLENNLP, *(system for system in ours if runs(system, device)), *int8_systems(device)]


def int8_systems(device: torch.device) -> list[System]:
    """Return ours with int8 weights, if this device can multiply by them."""
    return [INT8] if precision_on(device, "int8") == "int8" else []


@torch.no_grad()
def runs(system: System, device: torch.device) -> bool:
    """Return whether the kernel runs on this device in this precision, by trying it on two short sentences."""
    like: dict[str, Any] = {"device": device, "dtype": PRECISIONS[system.precision]}
    try:
        lstm = ElmoLstm(LstmOptions(cell_dim=64, projection_dim=32), kernel=str(system.kernel)).to(**like)
        lstm(torch.zeros(2, 3, 32, **like), torch.ones(2, 3, device=device, dtype=torch.bool))
    except (ImportError, NotImplementedError, RuntimeError, ValueError):
        return False
    return True
