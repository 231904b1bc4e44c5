"""The oracle: the LSTMP recurrence one time step after the other, as one would write it on a board."""

from typing import Optional

import torch
from torch import Tensor
from torch.nn.functional import linear

from elmo_plugin.kernels.signature import Inputs, LstmClips, LstmState, LstmWeights, dense


def reference(
    inputs: Inputs, lengths: Tensor, weights: LstmWeights, state: LstmState, clips: LstmClips
) -> tuple[Tensor, LstmState]:
    """Compute c = clip(f·c + i·g) and h = clip(W (o · tanh c)) for each token; see `Kernel` for shapes."""
    inputs = dense(inputs)  # (B, T, I)
    hidden, cell = state  # (B, P), (B, H)
    outputs = inputs.new_zeros(*inputs.shape[:2], hidden.size(-1))  # (B, T, P)
    for t, x in enumerate(inputs.unbind(dim=1)):  # (B, I)
        live = (t < lengths).unsqueeze(-1)  # (B, 1)
        gates = linear(x, weights.input) + linear(hidden, weights.recurrent) + weights.bias  # (B, 4H)
        i, f, g, o = gates.chunk(4, dim=-1)  # (B, H) each
        new_cell = _clip(f.sigmoid() * cell + i.sigmoid() * g.tanh(), clips.cell)  # (B, H)
        new_hidden = o.sigmoid() * new_cell.tanh()  # (B, H)
        if weights.projection is not None:
            new_hidden = _clip(linear(new_hidden, weights.projection), clips.projection)  # (B, P)
        hidden, cell = torch.where(live, new_hidden, hidden), torch.where(live, new_cell, cell)
        outputs[:, t] = torch.where(live, new_hidden, 0)
    return outputs, LstmState(hidden, cell)


def _clip(values: Tensor, bound: Optional[float]) -> Tensor:
    return values if bound is None else values.clamp(-bound, bound)
