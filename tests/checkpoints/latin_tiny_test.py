"""The Latin biLM that comes with the package: it is complete, says its language, and tells senses by their context."""

import pytest
import torch

from elmo_plugin import load
from elmo_plugin.checkpoints import Checkpoint, build_bilm, load_checkpoint
from elmo_plugin.text import batch_to_ids


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return load_checkpoint("latin-tiny")


def test_it_is_latin_without_a_softmax(checkpoint: Checkpoint) -> None:
    assert checkpoint.options.language == "la"
    assert checkpoint.softmax is None
    assert load("latin-tiny").embed([["Arma", "virumque", "cano"]])[0].shape == (3, 3, 512)  # layers, tokens, numbers


def test_it_tells_law_from_sauce(checkpoint: Checkpoint) -> None:
    """*Ius* is nearer to its other use in a recipe, or before a court, than to the other sense."""
    uses = [
        "Teres piper et ligisticum , suffundes ius et oleum .",
        "Adicies mel et acetum et ius de suo sibi .",
        "Ius civile populi Romani a maioribus constitutum est .",
        "Praetor ius dicit et leges servat .",
    ]
    sentences = [use.split() for use in uses]
    layers = build_bilm(checkpoint)(batch_to_ids(sentences)).layers[-1]  # (B, T, D)
    places = [[word.lower() for word in words].index("ius") + 1 for words in sentences]
    sauce, other_sauce, law, other_law = (layers[row, place] for row, place in enumerate(places))
    alike = torch.cosine_similarity
    assert alike(sauce, other_sauce, dim=0) > max(alike(sauce, law, dim=0), alike(sauce, other_law, dim=0))
    assert alike(law, other_law, dim=0) > max(alike(law, sauce, dim=0), alike(law, other_sauce, dim=0))
