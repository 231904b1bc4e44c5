"""Compare the vectors of two systems, which are timed only if they agree."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

MAX_DIFFERENCE = 1e-5
MIN_COSINE = {"float32": 0.9999, "bfloat16": 0.9999, "int8": 0.999}


class Disagreement(Exception):
    """Two systems compute different vectors or losses."""


class Agreement(NamedTuple):
    """How close a system is to AllenNLP in float32.

    difference : the largest absolute difference of any value
    cosine : the mean cosine of the token vectors, at the layer where it is lowest
    """

    difference: float
    cosine: float

    def __str__(self) -> str:
        return f"{self.difference:.1e}, {self.cosine:.6f}"


def check(name: str, precision: str, actual: Tensor, expected: Tensor, mask: Tensor) -> Agreement:
    """Compare the layers (L, B, T, D) of the tokens in the mask (B, T).

    Raises `Disagreement` if float32 differs by more than 1e-5, or if the cosine of a layer is below `MIN_COSINE`.
    """
    ours, theirs = actual[:, mask].double(), expected[:, mask].double()  # (L, N, D) each
    cosines = cosine_similarity(ours, theirs, dim=-1).mean(dim=-1)  # (L,)
    result = Agreement(float((ours - theirs).abs().max()), float(cosines.min()))
    if precision == "float32" and not result.difference <= MAX_DIFFERENCE:
        raise Disagreement(
            f"{name}: expected a difference from AllenNLP of at most {MAX_DIFFERENCE}, got {result.difference:.1e}"
        )
    bound = MIN_COSINE[precision]
    if not result.cosine >= bound:
        raise Disagreement(
            f"{name}: expected a cosine to AllenNLP of at least {bound} at every layer, got {result.cosine:.6f}"
        )
    return result


def check_loss(name: str, actual: float, expected: float, tolerance: float) -> float:
    """Return the relative difference of two losses. Raises `Disagreement` if it is larger than `tolerance`."""
    difference = abs(actual - expected) / abs(expected)
    if not difference <= tolerance:
        raise Disagreement(f"{name}: expected a loss of {expected:.6f} (± {tolerance:.0e} of it), got {actual:.6f}")
    return difference


def token_mask(ids: Tensor) -> Tensor:
    """Return the mask (B, T + 2) of the tokens in these ids (B, T, C), including boundaries."""
    lengths = (ids > 0).any(dim=-1).sum(dim=1, keepdim=True) + 2  # (B, 1)
    return torch.arange(ids.size(1) + 2, device=ids.device) < lengths
