"""The LSTMP recurrence in its plainest form. Tests compare every other kernel with it."""

from typing import Optional

import torch
from torch import Tensor
from torch.nn.functional import linear

from elmo_plugin.lstm.types import LstmClips, LstmState


def reference(
    gates: Tensor,
    sizes: list[int],
    recurrent: Tensor,
    projection: Optional[Tensor],
    state: LstmState,
    clips: LstmClips,
) -> tuple[Tensor, LstmState]:
    """Compute c = clip(f·c + i·g) and h = clip(W (o · tanh c)) for each token; see `Kernel` for shapes."""
    hidden, cell = state  # (B, P), (B, H)
    outputs = [gates.new_empty(0, hidden.size(1))]
    for step in gates.split(sizes):  # (active, 4H)
        active = len(step)
        i, f, g, o = (step + linear(hidden[:active], recurrent)).chunk(4, dim=-1)  # (active, H) each
        c = clip(f.sigmoid() * cell[:active] + i.sigmoid() * g.tanh(), clips.cell)  # (active, H)
        h = o.sigmoid() * c.tanh()  # (active, H)
        if projection is not None:
            h = clip(linear(h, projection), clips.projection)  # (active, P)
        outputs.append(h)
        hidden, cell = torch.cat([h, hidden[active:]]), torch.cat([c, cell[active:]])
    return torch.cat(outputs), LstmState(hidden, cell)


def clip(values: Tensor, bound: Optional[float]) -> Tensor:
    """Limit values to the range from −`bound` to `bound`."""
    return values if bound is None else values.clamp(-bound, bound)
