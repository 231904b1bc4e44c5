"""Other contextualizers than the LSTMs: what a sentence depends on. `causality_test` checks their directions."""

from typing import Any

import pytest
import torch

from elmo_plugin.bilm import BiLM
from elmo_plugin.text import batch_to_ids
from tests.oracles import SENTENCES, options

STATEFUL = {"type": "lstm", "input_size": 8, "hidden_size": 8, "bidirectional": True, "stateful": True}


@pytest.mark.parametrize("contextualizer", [STATEFUL, {"type": "compose", "encoders": [STATEFUL]}])
def test_a_stateful_encoder_starts_every_batch_without_a_state(contextualizer: dict[str, Any]) -> None:
    """AllenNLP's `reset_states` does not reach the encoders inside a `compose`."""
    bilm, ids = BiLM(options(contextualizer=contextualizer)), batch_to_ids([["a", "word"]])
    with torch.no_grad():
        before = bilm(ids).layers
        bilm(batch_to_ids(SENTENCES))
        assert torch.equal(bilm(ids).layers, before)
