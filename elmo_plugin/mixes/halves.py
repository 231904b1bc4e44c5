"""A batch that is too large for the memory, answered by halves."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

TOKENS_AT_ONCE = 16384
"""Tokens, padding included, of a batch that is run as one: its layers take 200 MB at the original size."""

OUT_OF_MEMORY = ("not enough memory", "can't allocate memory", "out of memory")
"""What PyTorch's errors say; the one of a GPU alone has a class."""

Run = Callable[[Tensor], list[Tensor]]


def by_halves(run: Run, ids: Tensor, present: Tensor) -> list[Tensor]:
    """The answers of a run over a batch, of the long half and the short half apart where the whole is too large.

    # Parameters

    run : `Run`
        Ids (B, T, …) to tensors (B, T + k, …), each row of its own.
    ids : `Tensor` (B, T, …)
    present : `Tensor` (B, T)
        Where there is a token.

    Raises what `run` raises, for want of memory only if it was for a single sentence.
    """
    if len(ids) < 2:
        return run(ids)
    if present.numel() <= TOKENS_AT_ONCE:
        try:
            return run(ids)
        except RuntimeError as error:
            if not any(words in str(error) for words in OUT_OF_MEMORY):
                raise
    last = present * torch.arange(1, present.size(1) + 1, device=present.device)  # (B, T), where a token stands
    lengths = last.amax(dim=1)  # (B,)
    order = lengths.argsort()  # (B,)
    parts = []
    for rows in order.tensor_split(2):
        longest = max(int(lengths[rows].max()), 1)
        answers = by_halves(run, ids[rows, :longest], present[rows, :longest])
        parts.append([_lengthened(answer, present.size(1) - longest) for answer in answers])
    return [torch.cat(halves)[order.argsort()] for halves in zip(*parts, strict=True)]


def _lengthened(answer: Tensor, steps: int) -> Tensor:
    """(B, T, …) to (B, T + steps, …), zeros at the end."""
    return pad(answer, (0, 0) * (answer.dim() - 2) + (0, steps))
