"""Other contextualizers than the LSTMs: what a sentence depends on. `causality_test` checks their directions."""

from typing import Any

import pytest
import torch

from elmo_plugin.bilm import BiLM, ZeroState, identity
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


def test_the_identity_of_a_bilm_includes_the_buffers_of_its_contextualizer() -> None:
    """A batch norm's averages are trained, but they are no parameters."""
    bilm = BiLM.random(options(contextualizer=STATEFUL), seed=0)
    bilm.lstm.register_buffer("running_mean", torch.zeros(3))
    bilm.lstm.register_buffer("batches", torch.tensor(1))
    before = identity(bilm, ZeroState())
    bilm.lstm.running_mean += 1  # type: ignore[operator]
    after = identity(bilm, ZeroState())
    assert before.pop("weights") != after.pop("weights") and before == after
