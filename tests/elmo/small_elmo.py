"""A small `Elmo`, ids for it, and a count of the runs of its biLM."""

from typing import Any, Optional

from elmo_plugin.bilm import BiLM
from elmo_plugin.elmo import Elmo, LayerMix, ScalarMix
from elmo_plugin.text import batch_to_ids
from tests.oracles import SENTENCES, options
from tests.task_oracles import D, L, small_bilm

IDS = batch_to_ids(SENTENCES)  # (4, 6, 50), an empty sentence among them
MASK = (IDS > 0).any(dim=-1)  # (4, 6)
RANDOM = {"options": options().to_dict(), "seed": 0}
"""A small biLM with random weights, as the key `bilm` of a config."""


def own(*mixes: LayerMix, bilm: Optional[BiLM] = None, **keys: Any) -> Elmo:
    """Build an `Elmo` around the small biLM, with one scalar mix by default and without dropout."""
    bilm = (bilm or small_bilm()).requires_grad_(keys.pop("requires_grad", False))
    bilm.set_precision(keys.pop("precision", "float32"))
    return Elmo.from_parts(bilm, mixes or [ScalarMix(L, D)], **{"dropout": 0.0, **keys})


def sentences_run(elmo: Elmo) -> list[int]:
    """Return a list to which each later run of the biLM appends its number of sentences."""
    seen: list[int] = []
    elmo.bilm.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    return seen
