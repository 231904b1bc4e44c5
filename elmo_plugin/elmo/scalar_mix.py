"""The mix that the paper proposes, learned or frozen."""

from typing import Optional

import torch
from allennlp.common import Lazy
from allennlp.common.checks import ConfigurationError
from torch import Tensor, nn

from elmo_plugin.elmo.layer_mix import LayerMix


@LayerMix.register("scalar")
class ScalarMix(LayerMix):
    """γ Σₗ softmax(w)ₗ hₗ (ELMo §3.2, equation 1).

    `w` and `γ` are parameters called `scalar_parameters` and `gamma`, so that a regularizer's regex reaches them:
    the paper's λ is the weight of `["scalar_parameters", {"type": "l2", "alpha": 0.001}]`.

    Registered as a `LayerMix` with name `scalar`.

    # Parameters

    num_layers, layer_dim : `int`
        L and D.
    initial_scalar_parameters : `Optional[list[float]]`
        w before the softmax, L numbers; zeros (equal weights) by default.
    trainable : `bool`
        Whether w and γ learn, whatever they start from.
    do_layer_norm : `bool`
        Normalize each layer of a sentence to mean 0 and variance 1 over its tokens, `<S>`, `</S>` and dimensions, so
        that a sentence has the same vectors in any batch. AllenNLP's `ScalarMix` normalizes over the whole batch: only
        for a batch of one sentence are its vectors ours. bilm-tf's `weight_layers` does too, but leaves out `<S>` and
        `</S>`: its vectors are others for one sentence, too.
    """

    def __init__(
        self,
        num_layers: int,
        layer_dim: int,
        initial_scalar_parameters: Optional[list[float]] = None,
        trainable: bool = True,
        do_layer_norm: bool = False,
    ) -> None:
        super().__init__(num_layers, layer_dim)
        weights = [0.0] * num_layers if initial_scalar_parameters is None else initial_scalar_parameters
        if len(weights) != num_layers:
            raise ConfigurationError(f"'initial_scalar_parameters' has {len(weights)} numbers; wanted {num_layers}")
        self.do_layer_norm = do_layer_norm
        self.scalar_parameters = nn.Parameter(torch.tensor(weights, dtype=torch.float), requires_grad=trainable)  # (L,)
        self.gamma = nn.Parameter(torch.ones(1), requires_grad=trainable)

    @classmethod
    def frozen_random(cls, num_layers: int, layer_dim: int, seed: int = 0, do_layer_norm: bool = False) -> "ScalarMix":
        """One whose weights w ~ N(0, 1) are drawn by a seed and never learn: the control of a learned mix.

        Registered as a `LayerMix` with name `frozen_random`.
        """
        drawn = torch.randn(num_layers, generator=torch.Generator().manual_seed(seed))
        return cls(num_layers, layer_dim, drawn.tolist(), trainable=False, do_layer_norm=do_layer_norm)

    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        """(L, B, T, D) to (B, T, D)."""
        if self.do_layer_norm:
            layers = _normalize(layers, mask)
        weights = self.gamma * self.scalar_parameters.softmax(dim=0)  # (L,)
        return torch.einsum("l,lbtd->btd", weights, layers)


def _normalize(layers: Tensor, mask: Tensor) -> Tensor:
    """Give each layer of each sentence mean 0 and variance 1 over what is not masked: (L, B, T, D)."""
    dtype = layers.dtype
    layers = layers.to(torch.promote_types(dtype, torch.float32))  # the sums over a sentence exceed float16
    live = mask[None, :, :, None]  # (1, B, T, 1)
    count = (live.sum(dim=2, keepdim=True) * layers.size(-1)).clamp(min=1)  # (1, B, 1, 1)
    mean = (layers * live).sum(dim=(2, 3), keepdim=True) / count  # (L, B, 1, 1)
    centred = (layers - mean) * live  # (L, B, T, D)
    variance = centred.square().sum(dim=(2, 3), keepdim=True) / count  # (L, B, 1, 1)
    return (centred / (variance + torch.finfo(layers.dtype).tiny).sqrt()).to(dtype)


LayerMix.register("frozen_random", constructor="frozen_random")(ScalarMix)


def mix_builder(
    mix: Optional[Lazy[LayerMix]], do_layer_norm: bool, scalar_mix_parameters: Optional[list[float]]
) -> tuple[str, Lazy[LayerMix]]:
    """Return the key of a config that describes the mix, and what builds it; a trainable `scalar` by default.

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
        raise ConfigurationError("'do_layer_norm' and 'scalar_mix_parameters' belong inside 'mix'; found both forms")
    return "mix", mix
