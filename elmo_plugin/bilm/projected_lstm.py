"""One layer of one direction: the weights of an LSTMP. Kernels compute it."""

import torch
from torch import nn

from elmo_plugin.bilm.sizes import LstmOptions
from elmo_plugin.lstm import LstmWeights


class ProjectedLstm(nn.Module):
    """An LSTM whose output is projected to P and clipped, as in TensorFlow's `LSTMCell(num_proj=P)`.

    A call returns its weights. Hooks and parametrizations, such as those of `torch.nn.utils.prune`, compute them anew.

    # Parameters

    input_size : `int`
        The width of the input (I).
    options : `LstmOptions`
    """

    def __init__(self, input_size: int, options: LstmOptions) -> None:
        super().__init__()
        cell_dim, projection_dim = options.cell_dim, options.projection_dim
        self.weight_ih = nn.Parameter(torch.empty(4 * cell_dim, input_size))  # (4H, I)
        self.weight_hh = nn.Parameter(torch.empty(4 * cell_dim, projection_dim))  # (4H, P)
        self.bias = nn.Parameter(torch.empty(4 * cell_dim))  # (4H,)
        self.weight_hr = nn.Parameter(torch.empty(projection_dim, cell_dim)) if options.has_projection else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialize as TensorFlow's `LSTMCell` does: Glorot over the stacked [x, h] kernel, forget bias 1."""
        bound = (6 / (self.weight_ih.size(1) + self.weight_hh.size(1) + self.bias.numel())) ** 0.5
        nn.init.uniform_(self.weight_ih, -bound, bound)
        nn.init.uniform_(self.weight_hh, -bound, bound)
        _, forget, _, _ = self.bias.zero_().chunk(4)
        forget.fill_(1.0)
        if self.weight_hr is not None:
            nn.init.xavier_uniform_(self.weight_hr)

    def forward(self) -> LstmWeights:
        """Return the weights in the form that kernels take."""
        return LstmWeights(self.weight_ih, self.weight_hh, self.bias, self.weight_hr)
