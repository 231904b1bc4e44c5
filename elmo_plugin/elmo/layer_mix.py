"""The base class of all mixes of layers, and the mixes without parameters."""

import warnings
from abc import ABC, abstractmethod
from typing import Any, TypeVar

from allennlp.common import Lazy, Params, Registrable
from allennlp.common.checks import ConfigurationError
from torch import Tensor, nn

from elmo_plugin.common import at_least

Part = TypeVar("Part")


class LayerMix(nn.Module, ABC, Registrable):
    """Combines the layers of a biLM into one vector per token (ELMo §3.2).

        >>> import torch
        >>> mix = LayerMix.by_name("average")(3, 64)
        >>> mix(torch.randn(3, 2, 5, 64), torch.ones(2, 5, dtype=torch.bool)).shape
        torch.Size([2, 5, 64])

    # Parameters

    num_elmo_layers : `int`
        The number of layers (L): the LSTM layers and the token layer. Configs may still call it `num_layers`.
    layer_dim : `int`
        The width of a layer (D).
    """

    default_implementation = "scalar"

    def __init__(self, num_elmo_layers: int, layer_dim: int) -> None:
        super().__init__()
        at_least(1, num_elmo_layers=num_elmo_layers, layer_dim=layer_dim)
        self.num_elmo_layers = num_elmo_layers
        self.layer_dim = layer_dim

    @classmethod
    def from_params(
        cls, params: Params, constructor_to_call: Any = None, constructor_to_inspect: Any = None, **extras: Any
    ) -> "LayerMix":
        """Build the mix of a config. `num_layers` is the old name of `num_elmo_layers`."""
        if isinstance(params, Params) and "num_layers" in params:
            extras["num_layers"] = params.pop_int("num_layers")
        if "num_layers" in extras and "num_elmo_layers" not in extras:
            warnings.warn("'num_layers' of a mix is now 'num_elmo_layers'", DeprecationWarning, stacklevel=2)
            extras["num_elmo_layers"] = extras["num_layers"]
        if "num_elmo_layers" in extras:  # a user's own mix may still take the old name
            extras["num_layers"] = extras["num_elmo_layers"]
        mix: LayerMix = super().from_params(params, constructor_to_call, constructor_to_inspect, **extras)
        return mix

    def get_output_dim(self) -> int:
        """Return the width of the mixed vectors, D by default."""
        return self.layer_dim

    @abstractmethod
    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        """Mix layers (L, B, T, D) with their mask (B, T): return (B, T, output dim)."""


@LayerMix.register("average")
class AverageMix(LayerMix):
    """The mean of all layers, the limit of the paper's λ = 1 (§5.1). Registered as a `LayerMix` with name `average`.

    >>> import torch
    >>> layers = torch.tensor([1.0, 2.0, 6.0]).view(3, 1, 1, 1)  # (L, B, T, D)
    >>> AverageMix(3, 1)(layers, torch.ones(1, 1, dtype=torch.bool)).item()
    3.0
    """

    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        """Return the mean (B, T, D) of layers (L, B, T, D)."""
        return layers.mean(dim=0)


@LayerMix.register("last")
class LastMix(LayerMix):
    """The top layer, which TagLM and CoVe use (§5.1). Registered as a `LayerMix` with name `last`.

    >>> import torch
    >>> layers = torch.tensor([1.0, 2.0, 6.0]).view(3, 1, 1, 1)  # (L, B, T, D)
    >>> LastMix(3, 1)(layers, torch.ones(1, 1, dtype=torch.bool)).item()
    6.0
    """

    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        """Return the last (B, T, D) of layers (L, B, T, D)."""
        return layers[-1]


@LayerMix.register("concatenate")
class ConcatenateMix(LayerMix):
    """All layers side by side, for a later module such as `elmo_enhanced` to mix.

    Registered as a `LayerMix` with name `concatenate`.

    >>> import torch
    >>> layers = torch.tensor([1.0, 2.0, 6.0]).view(3, 1, 1, 1)  # (L, B, T, D)
    >>> ConcatenateMix(3, 1)(layers, torch.ones(1, 1, dtype=torch.bool)).tolist()
    [[[1.0, 2.0, 6.0]]]
    """

    def get_output_dim(self) -> int:
        """Return the width of all layers (L · D)."""
        return self.num_elmo_layers * self.layer_dim

    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        """Concatenate layers (L, B, T, D): return (B, T, L · D), layer 0 first."""
        return layers.permute(1, 2, 0, 3).flatten(2)


def by_name(kind: Any, key: str, part: Any) -> Any:
    """Return the value of `key` as a `Lazy` of this class. In Python too, it may be a registered name.

    Raises `ConfigurationError` for a part that is already built.
    """
    if isinstance(part, str):
        return Lazy(kind.by_name(part))
    if part is None or isinstance(part, Lazy):
        return part
    raise ConfigurationError(
        f"'{key}': expected a string or a `Lazy`, got a {type(part).__name__}; `Elmo.from_parts` takes built parts"
    )


def build_part(key: str, part: Lazy[Part], **sizes: int) -> Part:
    """Build the value of a config's `key` for these sizes. Errors name the key."""
    try:
        return part.construct(**sizes)
    except ConfigurationError as error:
        raise ConfigurationError(f"'{key}': {error}") from error
