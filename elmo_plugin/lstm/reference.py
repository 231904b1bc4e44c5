"""The LSTMP recurrence in its plainest form. Tests compare every other kernel with it."""

from typing import Optional

import torch
from torch import Tensor

from elmo_plugin.lstm.types import LstmInputs, LstmState


def reference(inputs: LstmInputs) -> tuple[Tensor, LstmState]:
    """Compute c = clip(f·c + i·g) and h = clip(W (o · tanh c)) for each token; see `LstmInputs` for shapes."""
    gates, sizes, recurrent, projection, (hidden, cell), clips = inputs  # (R, B, P), (R, B, H)
    outputs = [hidden[:, :0]]
    for step in gates.split(sizes, dim=1):  # (R, active, 4H)
        active = step.size(1)
        i, f, g, o = recurrent(hidden[:, :active], start=step).chunk(4, dim=-1)  # (R, active, H) each
        c = clip(f.sigmoid() * cell[:, :active] + i.sigmoid() * g.tanh(), clips.cell)  # (R, active, H)
        h = o.sigmoid() * c.tanh()  # (R, active, H)
        if projection is not None:
            h = clip(projection(h), clips.projection)  # (R, active, P)
        outputs.append(h)
        hidden, cell = torch.cat([h, hidden[:, active:]], dim=1), torch.cat([c, cell[:, active:]], dim=1)
    return torch.cat(outputs, dim=1), LstmState(hidden, cell)


def clip(values: Tensor, bound: Optional[float]) -> Tensor:
    """Limit values to the range from −`bound` to `bound`."""
    return values if bound is None else values.clamp(-bound, bound)
