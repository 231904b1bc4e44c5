"""Whether two contestants give the same answer; only then are they timed."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

LARGEST_DIFFERENCE = 1e-5
LEAST_COSINE = 0.9999


class Disagreement(Exception):
    """Two contestants give different answers; the message names them, what was found and what was wanted."""


class Agreement(NamedTuple):
    """How near an answer is to that of AllenNLP in float32.

    difference : the largest absolute difference of any value
    cosine : of a token's vector, the mean over tokens of the layer where that is least
    """

    difference: float
    cosine: float

    def __str__(self) -> str:
        """As a table says it."""
        return f"{self.difference:.1e}, {self.cosine:.6f}"


def agreement(found: Tensor, wanted: Tensor, mask: Tensor) -> Agreement:
    """Compare layers (L, B, T, D) where the mask (B, T) has a token."""
    ours, theirs = found[:, mask].double(), wanted[:, mask].double()  # (L, N, D) each
    by_layer = cosine_similarity(ours, theirs, dim=-1).mean(dim=-1)  # (L,)
    return Agreement(float((ours - theirs).abs().max()), float(by_layer.min()))


def check(name: str, precision: str, found: Tensor, wanted: Tensor, mask: Tensor) -> Agreement:
    """Compare, and raise `Disagreement` if float32 differs by more than 1e-5, or another precision's cosine is less
    than 0.9999 at a layer."""
    result = agreement(found, wanted, mask)
    if precision == "float32" and not result.difference <= LARGEST_DIFFERENCE:
        raise Disagreement(
            f"{name}: differs by {result.difference:.1e} from the float32 answer; wanted at most {LARGEST_DIFFERENCE}"
        )
    if not result.cosine >= LEAST_COSINE:
        raise Disagreement(
            f"{name}: at one layer the cosine to the float32 answer is {result.cosine:.6f}; wanted at least "
            f"{LEAST_COSINE}"
        )
    return result


def check_scalar(name: str, found: float, wanted: float, tolerance: float) -> float:
    """The relative difference of two losses; raises `Disagreement` if it is larger than `tolerance`."""
    difference = abs(found - wanted) / abs(wanted)
    if not difference <= tolerance:
        raise Disagreement(f"{name}: the loss is {found:.6f}; wanted {wanted:.6f} within a part of {tolerance}")
    return difference


def tokens_of(ids: Tensor) -> Tensor:
    """Where layers of these ids (B, T, C) have a token, boundaries included: (B, T + 2)."""
    lengths = (ids > 0).any(dim=-1).sum(dim=1, keepdim=True) + 2  # (B, 1)
    return torch.arange(ids.size(1) + 2, device=ids.device) < lengths
