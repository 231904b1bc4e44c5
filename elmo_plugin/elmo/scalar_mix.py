"""The weighted sum of layers that the paper proposes, learned or frozen."""

from typing import Optional

import torch
from allennlp.common import Lazy
from allennlp.common.checks import ConfigurationError
from torch import Tensor, nn

from elmo_plugin.elmo.layer_mix import LayerMix


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
        self.scalar_parameters = nn.Parameter(torch.tensor(weights, dtype=torch.float), requires_grad=trainable)  # (L,)
        self.gamma = nn.Parameter(torch.ones(1), requires_grad=trainable)

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


LayerMix.register("frozen_random", constructor="frozen_random")(ScalarMix)


def mix_builder(
    mix: Optional[Lazy[LayerMix]], do_layer_norm: bool, scalar_mix_parameters: Optional[list[float]]
) -> tuple[str, Lazy[LayerMix]]:
    """Return the `Lazy` of a mix, a trainable `scalar` by default, after the config key that errors should name.

    `do_layer_norm` and `scalar_mix_parameters` are AllenNLP's short forms for keys of a `scalar` mix.
    """
    if mix is None:
        build = Lazy[LayerMix](
            ScalarMix,
            constructor_extras={
                "initial_scalar_parameters": scalar_mix_parameters,
                "trainable": scalar_mix_parameters is None,
                "do_layer_norm": do_layer_norm,
            },
        )
        return ("mix" if scalar_mix_parameters is None else "scalar_mix_parameters"), build
    if do_layer_norm or scalar_mix_parameters is not None:
        raise ConfigurationError(
            "'mix': expected 'do_layer_norm' and 'scalar_mix_parameters' inside it, got them beside it"
        )
    return "mix", mix
