"""What a mix of layers is, and the ones that have nothing to learn."""

from abc import ABC, abstractmethod
from typing import TypeVar

from allennlp.common import Lazy, Registrable
from allennlp.common.checks import ConfigurationError
from torch import Tensor, nn

from elmo_plugin.config_keys import at_least

Part = TypeVar("Part")


class LayerMix(nn.Module, ABC, Registrable):
    """Makes one vector a token of a biLM's layers (ELMo §3.2).

    # Parameters

    num_layers : `int`
        L, the token layer included.
    layer_dim : `int`
        D.
    """

    default_implementation = "scalar"

    def __init__(self, num_layers: int, layer_dim: int) -> None:
        super().__init__()
        at_least(1, num_layers=num_layers, layer_dim=layer_dim)
        self.num_layers = num_layers
        self.layer_dim = layer_dim

    def get_output_dim(self) -> int:
        """Width of the vector it makes: D, unless the mix says otherwise."""
        return self.layer_dim

    @abstractmethod
    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        """Layers (L, B, T, D) with their mask (B, T) to (B, T, output dim)."""


@LayerMix.register("average")
class AverageMix(LayerMix):
    """The mean of all layers: the paper's λ = 1 in the limit (§5.1). Registered as a `LayerMix` with name `average`."""

    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        """(L, B, T, D) to (B, T, D)."""
        return layers.mean(dim=0)


@LayerMix.register("last")
class LastMix(LayerMix):
    """The top layer alone, as TagLM and CoVe use it (§5.1). Registered as a `LayerMix` with name `last`."""

    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        """(L, B, T, D) to (B, T, D)."""
        return layers[-1]


@LayerMix.register("concatenate")
class ConcatenateMix(LayerMix):
    """All layers side by side, for someone behind to mix: `elmo_enhanced`, above all.

    Registered as a `LayerMix` with name `concatenate`.
    """

    def get_output_dim(self) -> int:
        """L · D."""
        return self.num_layers * self.layer_dim

    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        """(L, B, T, D) to (B, T, L · D), layer 0 first."""
        return layers.permute(1, 2, 0, 3).flatten(2)


def build_part(key: str, part: Lazy[Part], **sizes: int) -> Part:
    """What a config has under `key`, for these sizes. Raises `ConfigurationError` that names the key."""
    try:
        return part.construct(**sizes)
    except ConfigurationError as error:
        raise ConfigurationError(f"'{key}': {error}") from error
