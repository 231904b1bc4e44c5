"""A mix that can learn any function of a token's layers."""

from typing import Optional

from torch import Tensor, nn

from elmo_plugin.common import at_least
from elmo_plugin.elmo.layer_mix import LayerMix


@LayerMix.register("learned_function")
class LearnedFunctionMix(LayerMix):
    """W₂ relu(W₁ [h₀; …; h_{L−1}] + b₁) + b₂: a feed-forward network over a token's layers.

    Registered as a `LayerMix` with name `learned_function`.

    >>> import torch
    >>> mix = LearnedFunctionMix(3, 8, hidden_dim=4)
    >>> mix(torch.randn(3, 2, 5, 8), torch.ones(2, 5, dtype=torch.bool)).shape
    torch.Size([2, 5, 8])

    # Parameters

    num_elmo_layers, layer_dim : `int`
        See `LayerMix`.
    hidden_dim : `Optional[int]`
        The width of the hidden layer; D by default.
    """

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
