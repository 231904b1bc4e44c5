"""The identity of a biLM: everything that its layers depend on except the sentence."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor

from elmo_plugin.bilm.bilm import BiLM
from elmo_plugin.bilm.initial_state import InitialState
from elmo_plugin.bilm.precision import is_int8
from elmo_plugin.lstm import product_type


def identity(bilm: BiLM, initial_state: InitialState) -> dict[str, Any]:
    """Return the sizes, weights, precision and initial state as JSON values.

    The initial state must be the same for every sentence.
    """
    weights = [parameter for _, parameter in sorted(bilm.named_parameters())]
    buffers = [buffer for _, buffer in sorted(bilm.lstm.named_buffers())]  # a contextualizer's, such as batch norm's
    start = initial_state.before(bilm, 1, weights[0])
    return {
        "options": bilm.options.to_dict(),
        "dtype": "int8" if is_int8(bilm) else str(product_type(weights[0])),
        "weights": _digest([*weights, *buffers]),
        "initial_state": f"{initial_state.name} {_digest(start)}",
    }


def _digest(tensors: Iterable[Tensor]) -> str:
    digest = blake2b(digest_size=16)
    for tensor in tensors:
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
