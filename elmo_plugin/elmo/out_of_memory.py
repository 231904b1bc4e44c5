"""Split a batch that runs out of memory in two, and retry."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Optional

import torch
from torch import Tensor

from elmo_plugin.elmo.batch_dimensions import merge_batch_dimensions
from elmo_plugin.elmo.output import ElmoOutput

TOKENS_AT_ONCE = 16384
"""The largest batch that is run whole, in tokens with padding. Its layers take 200 MB at the original size."""

OUT_OF_MEMORY = ("not enough memory", "can't allocate memory", "out of memory")
"""Parts of PyTorch's error messages. Only a GPU's error has a class of its own."""

Forward = Callable[[Any, Tensor, Optional[Tensor]], ElmoOutput]
Run = Callable[[Tensor], ElmoOutput]


def split_on_out_of_memory(forward: Forward) -> Forward:
    """Wrap `Elmo.forward`: split a batch that is too large, or runs out of memory, into shorter and longer sentences.

    A batch is never split if gradients are enabled, or if a sentence's vectors depend on the sentences before it. If a
    single sentence runs out of memory, its error is raised.
    """

    @wraps(forward)
    def split_forward(elmo: Any, inputs: Tensor, word_inputs: Optional[Tensor] = None) -> ElmoOutput:
        if torch.is_grad_enabled() or not elmo.initial_state.same_for_every_sentence:
            return forward(elmo, inputs, word_inputs)
        encoder = elmo.bilm.token_encoder
        ids, batch = merge_batch_dimensions(inputs, encoder.input_dims)  # (B, T, ·)

        def run(some: Tensor) -> ElmoOutput:
            return forward(elmo, some, None)

        output = _run_if_it_fits(run, ids)
        representations, mask = _run_in_parts(run, ids, encoder.mask(ids)) if output is None else output
        return ElmoOutput([values.unflatten(0, batch) for values in representations], mask.unflatten(0, batch))

    return split_forward


def _run_if_it_fits(run: Run, ids: Tensor) -> Optional[ElmoOutput]:
    """Run a batch. Return `None` if it is too large or runs out of memory, unless it is a single sentence."""
    can_be_split = len(ids) > 1
    if can_be_split and ids.size(0) * ids.size(1) > TOKENS_AT_ONCE:
        return None
    try:
        return run(ids)
    except RuntimeError as error:
        if can_be_split and any(words in str(error) for words in OUT_OF_MEMORY):
            return None
        raise


def _run_in_parts(run: Run, ids: Tensor, present: Tensor) -> ElmoOutput:
    """Run ids (B, T, ·) with mask (B, T) in parts of similar length, and join the outputs."""
    steps = torch.arange(1, ids.size(1) + 1, device=ids.device)  # (T,)
    lengths = (present * steps).amax(dim=1)  # (B,), up to the last token even if there are gaps
    whole: list[Tensor] = []
    parts = list(lengths.argsort().tensor_split(2))
    while parts:
        rows = parts.pop()
        # The extra column is padding, whose vectors fill the columns that the part leaves out.
        columns = min(int(lengths[rows].max()) + 1, ids.size(1))
        output = _run_if_it_fits(run, ids[rows, :columns])
        if output is None:
            parts += rows.tensor_split(2)
            continue
        values = [*output.representations, output.mask]
        beyond = ids.size(1) - columns
        whole = whole or [each.new_empty(len(ids), each.size(1) + beyond, *each.shape[2:]) for each in values]
        for joined, each in zip(whole, values, strict=True):
            joined[rows, : each.size(1)] = each
            joined[rows, each.size(1) :] = each[:, -1:]
    *representations, mask = whole
    return ElmoOutput(representations, mask)
