"""The mixes: each combines the layers of a biLM into one vector per token (ELMo §3.2)."""

from abc import ABC, abstractmethod
from typing import Any, Optional, TypeVar, Union

import torch
from allennlp.common import Lazy, Params, Registrable
from allennlp.common.checks import ConfigurationError
from torch import Tensor, nn

from elmo_plugin.checkpoints import reject_override
from elmo_plugin.common import at_least

Part = TypeVar("Part")


class LayerMix(nn.Module, ABC, Registrable):
    """Combines the layers of a biLM into one vector per token.

        >>> mix = LayerMix.by_name("average")(3, 64)
        >>> mix(torch.randn(3, 2, 5, 64), torch.ones(2, 5, dtype=torch.bool)).shape
        torch.Size([2, 5, 64])

    A mix of your own writes `forward`, and `get_output_dim` if its vectors have another width than a layer. It is
    faster with `reads_boundaries = False`. Its constructor takes these parameters and the keys of a config. A wrong
    value of a key is a `ConfigurationError`, `'key': expected X, got Y`. See docs/extend.md.

    # Parameters

    num_elmo_layers : `int`
        The number of layers (L): the LSTM layers and the token layer.
    layer_dim : `int`
        The width of a layer (D).
    """

    default_implementation = "scalar"
    reads_boundaries: bool = True
    """Whether a token's vector depends on the layers of `<S>` and `</S>`. If not, T may leave them out."""

    def __init__(self, num_elmo_layers: int, layer_dim: int) -> None:
        super().__init__()
        at_least(1, num_elmo_layers=num_elmo_layers, layer_dim=layer_dim)
        self.num_elmo_layers = num_elmo_layers
        self.layer_dim = layer_dim

    def get_output_dim(self) -> int:
        """Return the width of the mixed vectors, D by default."""
        return self.layer_dim

    @abstractmethod
    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        """Mix layers (L, B, T, D) with their mask (B, T): return (B, T, output dim)."""


@LayerMix.register("average")
class AverageMix(LayerMix):
    """The mean of all layers, the limit of the paper's λ = 1 (§5.1). Registered as a `LayerMix` with name `average`.

    >>> layers = torch.tensor([1.0, 2.0, 6.0]).view(3, 1, 1, 1)  # (L, B, T, D)
    >>> AverageMix(3, 1)(layers, torch.ones(1, 1, dtype=torch.bool)).item()
    3.0
    """

    reads_boundaries = False

    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        """Return the mean (B, T, D) of layers (L, B, T, D)."""
        return layers.mean(dim=0)


@LayerMix.register("last")
class LastMix(LayerMix):
    """The top layer, which TagLM and CoVe use (§5.1). Registered as a `LayerMix` with name `last`.

    >>> layers = torch.tensor([1.0, 2.0, 6.0]).view(3, 1, 1, 1)  # (L, B, T, D)
    >>> LastMix(3, 1)(layers, torch.ones(1, 1, dtype=torch.bool)).item()
    6.0
    """

    reads_boundaries = False

    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        """Return the last (B, T, D) of layers (L, B, T, D)."""
        return layers[-1]


@LayerMix.register("concatenate")
class ConcatenateMix(LayerMix):
    """All layers side by side, for a later module such as `elmo_enhanced` to mix.

    Registered as a `LayerMix` with name `concatenate`.

    >>> layers = torch.tensor([1.0, 2.0, 6.0]).view(3, 1, 1, 1)  # (L, B, T, D)
    >>> ConcatenateMix(3, 1)(layers, torch.ones(1, 1, dtype=torch.bool)).tolist()
    [[[1.0, 2.0, 6.0]]]
    """

    reads_boundaries = False

    def get_output_dim(self) -> int:
        """Return the width of all layers (L · D)."""
        return self.num_elmo_layers * self.layer_dim

    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        """Concatenate layers (L, B, T, D): return (B, T, L · D), layer 0 first."""
        return layers.permute(1, 2, 0, 3).flatten(2)


@LayerMix.register("frozen_random", constructor="frozen_random")
@LayerMix.register("scalar")
class ScalarMix(LayerMix):
    """γ Σₗ softmax(w)ₗ hₗ (ELMo §3.2, equation 1).

    The parameters `w` and `γ` are called `scalar_parameters` and `gamma`, so that the regexes of published configs
    match them: the paper's λ is the `alpha` of `["scalar_parameters", {"type": "l2", "alpha": 0.001}]`.

    Registered as a `LayerMix` with name `scalar`.

    >>> mix = ScalarMix(3, 1, initial_scalar_parameters=[0.0, 0.0, 10.0])  # nearly all weight on the last layer
    >>> layers = torch.tensor([1.0, 2.0, 6.0]).view(3, 1, 1, 1)  # (L, B, T, D)
    >>> round(mix(layers, torch.ones(1, 1, dtype=torch.bool)).item(), 2)
    6.0

    # Parameters

    num_elmo_layers, layer_dim : `int`
        See `LayerMix`.
    initial_scalar_parameters : `Optional[list[float]]`
        The L numbers w before the softmax; zeros (equal weights) by default.
    trainable : `bool`
        Train w and γ. This is independent of their initial values.
    do_layer_norm : `bool`
        Normalize each layer of a sentence to mean 0 and variance 1 over its tokens (with `<S>` and `</S>`) and
        dimensions, so that a sentence has the same vectors in any batch. AllenNLP's `ScalarMix` normalizes over the
        whole batch, so its vectors equal these only for a batch of one sentence. bilm-tf's `weight_layers` also
        normalizes over the batch, but without `<S>` and `</S>`, so its vectors always differ.
    """

    def __init__(
        self,
        num_elmo_layers: int,
        layer_dim: int,
        initial_scalar_parameters: Optional[list[float]] = None,
        trainable: bool = True,
        do_layer_norm: bool = False,
    ) -> None:
        super().__init__(num_elmo_layers, layer_dim)
        weights = [0.0] * num_elmo_layers if initial_scalar_parameters is None else initial_scalar_parameters
        if len(weights) != num_elmo_layers:
            raise ConfigurationError(
                f"'initial_scalar_parameters': expected {num_elmo_layers} numbers, got {len(weights)}"
            )
        self.do_layer_norm = do_layer_norm
        # One tensor, where AllenNLP has a `ParameterList`, which `DataParallel` does not support.
        self.scalar_parameters = nn.Parameter(torch.tensor(weights, dtype=torch.float), requires_grad=trainable)  # (L,)
        self.gamma = nn.Parameter(torch.ones(1), requires_grad=trainable)

    @property
    def reads_boundaries(self) -> bool:  # type: ignore[override]
        """Return whether layers are normalized, over the boundaries too."""
        return self.do_layer_norm

    @classmethod
    def frozen_random(
        cls, num_elmo_layers: int, layer_dim: int, seed: int = 0, do_layer_norm: bool = False
    ) -> "ScalarMix":
        """Build a mix with fixed random weights w ~ N(0, 1): the control of a learned mix.

        Registered as a `LayerMix` with name `frozen_random`.

        # Parameters

        seed : the seed of the generator that draws the weights
        """
        drawn = torch.randn(num_elmo_layers, generator=torch.Generator().manual_seed(seed))
        return cls(num_elmo_layers, layer_dim, drawn.tolist(), trainable=False, do_layer_norm=do_layer_norm)

    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        """Mix layers (L, B, T, D) with their mask (B, T): return (B, T, D)."""
        if self.do_layer_norm:
            layers = _normalize(layers, mask)
        weights = self.gamma * self.scalar_parameters.softmax(dim=0)  # (L,)
        return torch.einsum("l,lbtd->btd", weights, layers)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Also read the state dict of AllenNLP's `ScalarMix`, which has one parameter for each weight."""
        name = f"{prefix}scalar_parameters"
        theirs = [f"{name}.{layer}" for layer in range(self.num_elmo_layers)]
        if all(each in state_dict for each in theirs):
            state_dict[name] = torch.cat([state_dict.pop(each) for each in theirs])  # (L,)
        super()._load_from_state_dict(state_dict, prefix, *args)


def _normalize(layers: Tensor, mask: Tensor) -> Tensor:
    """Normalize each layer of each sentence to mean 0 and variance 1 over its tokens: (L, B, T, D)."""
    dtype = layers.dtype
    layers = layers.to(torch.promote_types(dtype, torch.float32))  # a sum over a sentence may exceed float16
    present = mask[None, :, :, None]  # (1, B, T, 1)
    count = (present.sum(dim=2, keepdim=True) * layers.size(-1)).clamp(min=1)  # (1, B, 1, 1)
    mean = (layers * present).sum(dim=(2, 3), keepdim=True) / count  # (L, B, 1, 1)
    centered = (layers - mean) * present  # (L, B, T, D)
    variance = centered.square().sum(dim=(2, 3), keepdim=True) / count  # (L, B, 1, 1)
    return (centered / (variance + torch.finfo(layers.dtype).tiny).sqrt()).to(dtype)


@LayerMix.register("learned_function")
class LearnedFunctionMix(LayerMix):
    """W₂ relu(W₁ [h₀; …; h_{L−1}] + b₁) + b₂: a feed-forward network over a token's layers.

    Registered as a `LayerMix` with name `learned_function`.

    >>> mix = LearnedFunctionMix(3, 8, hidden_dim=4)
    >>> mix(torch.randn(3, 2, 5, 8), torch.ones(2, 5, dtype=torch.bool)).shape
    torch.Size([2, 5, 8])

    # Parameters

    num_elmo_layers, layer_dim : `int`
        See `LayerMix`.
    hidden_dim : `Optional[int]`
        The width of the hidden layer; D by default.
    """

    reads_boundaries = False

    def __init__(self, num_elmo_layers: int, layer_dim: int, hidden_dim: Optional[int] = None) -> None:
        super().__init__(num_elmo_layers, layer_dim)
        at_least(1, hidden_dim=hidden_dim)
        width = layer_dim if hidden_dim is None else hidden_dim
        self.function = nn.Sequential(
            nn.Linear(num_elmo_layers * layer_dim, width), nn.ReLU(), nn.Linear(width, layer_dim)
        )

    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        """Mix layers (L, B, T, D): return (B, T, D), zero where there is no token."""
        stacked = layers.permute(1, 2, 0, 3).flatten(2)  # (B, T, L · D)
        return self.function(stacked) * mask.unsqueeze(-1)


def build_part(key: str, kind: Any, part: Union[str, Lazy[Part]], **sizes: int) -> Part:
    """Build the value of a config's `key`. In Python it may also be a registered name of its `kind`.

    Errors name the key. Raises `ConfigurationError` for a part that is already built.
    """
    if not isinstance(part, str | Lazy):
        raise ConfigurationError(
            f"'{key}': expected a string or a `Lazy`, got a {type(part).__name__}; `Elmo.from_parts` takes built parts"
        )
    try:
        lazy: Lazy[Part] = Lazy(kind.by_name(part)) if isinstance(part, str) else part
        return lazy.construct(**sizes)
    except ConfigurationError as error:
        if f"'{key}." in str(error):  # a part that a config describes names its own keys
            raise
        raise ConfigurationError(f"'{key}': {error}") from error


def build_mix(
    key: str, mix: Union[str, Lazy[LayerMix]], serialization_dir: Optional[str], num_elmo_layers: int, layer_dim: int
) -> LayerMix:
    """Build the mix of a config's `key` for the layers of a biLM; see `build_part`.

    Raises `ConfigurationError` for first weights of a mix if the weights of a trained model hold others.
    """
    first = "initial_scalar_parameters"
    if isinstance(mix, Lazy) and isinstance(mix._params, Params) and first in mix._params:
        reject_override(serialization_dir, first, mix._params.get(first))
    return build_part(key, LayerMix, mix, num_elmo_layers=num_elmo_layers, layer_dim=layer_dim)
