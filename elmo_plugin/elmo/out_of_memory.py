"""A batch that is too large for the memory, answered by halves."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

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
    whole: list[Tensor] = []
    for rows, steps, answers in _parts(run, ids, present):
        if len(rows) == len(ids):
            return answers
        if not whole:
            beyond = ids.size(1) - steps
            whole = [answer.new_zeros(len(ids), answer.size(1) + beyond, *answer.shape[2:]) for answer in answers]
        for joined, answer in zip(whole, answers, strict=True):
            joined[rows, : answer.size(1)] = answer
    return whole


def _parts(run: Run, ids: Tensor, present: Tensor) -> Iterator[tuple[Tensor, int, list[Tensor]]]:
    """Rows, their steps T, and the run's answers for them: one after another, so that only one is held at a time."""
    if len(ids) < 2 or present.numel() <= TOKENS_AT_ONCE:
        try:
            yield torch.arange(len(ids), device=ids.device), ids.size(1), run(ids)
            return
        except RuntimeError as error:
            if len(ids) < 2 or not any(words in str(error) for words in OUT_OF_MEMORY):
                raise
    last = present * torch.arange(1, present.size(1) + 1, device=present.device)  # (B, T), where a token stands
    lengths = last.amax(dim=1)  # (B,)
    for rows in lengths.argsort().tensor_split(2):
        longest = max(int(lengths[rows].max()), 1)
        for inner, steps, answers in _parts(run, ids[rows, :longest], present[rows, :longest]):
            yield rows[inner], steps, answers
