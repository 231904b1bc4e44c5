"""The causality check: which contextualizers pass, which are rejected, and that none leaks the target in training."""

import logging
import math
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from torch import Tensor

from elmo_plugin.pretraining.causality import check_causality
from elmo_plugin.pretraining.vocabulary import MARKS, WordIds
from tests.language_model_oracles import language_model as build
from tests.oracles import options

WIDTH = 8
"""I, and P for contextualizers in which both are equal."""
SIZES = {"input_size": WIDTH, "hidden_size": WIDTH}
ELMO_LSTM = {"type": "elmo_lstm", **SIZES, "cell_size": 10, "num_layers": 2}
PASSING: dict[str, dict[str, Any]] = {
    "elmo_lstm, all layers": {**ELMO_LSTM, "return_all_layers": True, "dropout": 0.5},
    "lstm": {"type": "lstm", **SIZES, "bidirectional": True},
    "gated cnn": {
        "type": "gated-cnn-encoder",
        "input_dim": WIDTH,
        "layers": [[[3, WIDTH]], [[2, WIDTH]]],
        "dropout": 0.5,
    },
    "stateful lstm": {"type": "lstm", **SIZES, "bidirectional": True, "stateful": True},
}
REJECTED: list[tuple[dict[str, Any], str]] = [
    ({"type": "lstm", **SIZES, "num_layers": 2, "bidirectional": True}, "'LSTM' leaks the target.* forward .* later"),
    ({"type": "pytorch_transformer", "input_dim": WIDTH, "num_layers": 1, "num_attention_heads": 2}, "one"),
    ({"type": "lstm", **SIZES}, "'LSTM' with one"),
]


class Wrapper(Seq2SeqEncoder):
    """A bidirectional LSTM with a changed output."""

    def __init__(self, spoil: str) -> None:
        super().__init__()
        self.inner = encoder(PASSING["lstm"])
        self.spoil = spoil

    def get_input_dim(self) -> int:
        return WIDTH

    def get_output_dim(self) -> int:
        return self.inner.get_output_dim()

    def is_bidirectional(self) -> bool:
        return True

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        ahead, behind = self.inner(inputs, mask).chunk(2, dim=-1)  # (B, T, P) each
        if self.spoil == "backward":
            return torch.cat([ahead, behind + 0.01 * ahead], dim=-1)
        if self.spoil == "positions":  # counted from the first token
            behind = behind + torch.arange(behind.size(1)).unsqueeze(-1)
        return torch.cat([ahead, behind], dim=-1)


def encoder(config: dict[str, Any]) -> Seq2SeqEncoder:
    """Build a `Seq2SeqEncoder`."""
    torch.manual_seed(4)
    return Seq2SeqEncoder.from_params(Params(dict(config)))


@pytest.mark.parametrize("name", PASSING)
def test_directions_that_never_meet_pass(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    contextualizer = encoder(PASSING[name]).train()
    check_causality(contextualizer)
    assert all(module.training for module in contextualizer.modules())
    assert not caplog.records


@pytest.mark.parametrize(("config", "facts"), REJECTED)
def test_a_contextualizer_that_leaks_or_has_one_direction_is_rejected(config: dict[str, Any], facts: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'contextualizer'.*{facts}"):
        check_causality(encoder(config))


def test_a_slight_leak_is_found() -> None:
    with pytest.raises(ConfigurationError, match=r"'Wrapper' leaks the target.* backward .* earlier"):
        check_causality(Wrapper("backward"))
    check_causality(Wrapper("nothing"))


def test_a_direction_that_knows_where_a_sentence_begins_gets_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    check_causality(Wrapper("positions"))
    (message,) = caplog.messages
    assert "backward outputs of 'Wrapper'" in message and "how many tokens precede" in message


def test_the_check_leaves_no_trace() -> None:
    """The random number generator, and the state of a stateful encoder, are as before."""
    contextualizer, twin = encoder(PASSING["stateful lstm"]), encoder(PASSING["stateful lstm"])
    torch.manual_seed(11)
    check_causality(contextualizer)
    found = torch.rand(4)
    torch.manual_seed(11)
    assert torch.equal(found, torch.rand(4))
    sentence, mask = torch.randn(1, 3, WIDTH), torch.ones(1, 3, dtype=torch.bool)
    torch.testing.assert_close(contextualizer(sentence, mask), twin(sentence, mask))


def test_a_language_model_checks_its_contextualizer() -> None:
    assert build(contextualizer=PASSING["lstm"]).bilm.lstm.is_bidirectional()
    with pytest.raises(ConfigurationError, match=r"'contextualizer'.*leaks the target"):
        build(contextualizer=REJECTED[0][0])


RANDOM_WORDS = [f"w{number}" for number in range(16)]
LENGTH = 7
ENTROPY = LENGTH * math.log(16) / (LENGTH + 1)
"""The lowest possible loss in nats per token: a boundary is certain after `LENGTH` words, a word never is."""


def random_sentences(seed: int) -> Iterator[list[list[str]]]:
    """60 batches of 32 sentences of `LENGTH` words, each word drawn at random."""
    random = Random(seed)
    for _ in range(60):
        yield [random.choices(RANDOM_WORDS, k=LENGTH) for _ in range(32)]


@pytest.mark.slow
def test_random_words_are_not_predicted_better_than_chance() -> None:
    """13440 words: the standard error of a mean of log likelihoods as flat as these is below 0.005."""
    sizes = options(char_cnn=None, dim=16, projection_dim=WIDTH).to_dict()
    contextualizer = {**ELMO_LSTM, "input_size": WIDTH, "hidden_size": WIDTH}
    model = build([*MARKS, *RANDOM_WORDS], bilm={"options": sizes}, contextualizer=contextualizer).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    ids = WordIds(model.vocab)
    for batch in random_sentences(0):
        optimizer.zero_grad()
        model(tokens=ids.of_sentences(batch))["loss"].backward()
        optimizer.step()
    model.eval().get_metrics(reset=True)
    with torch.no_grad():
        for batch in random_sentences(1):
            model(tokens=ids.of_sentences(batch))
    found = model.get_metrics(reset=True)
    for direction in ("forward", "backward"):
        nats = math.log(found[f"{direction}_perplexity"])
        assert ENTROPY - 0.01 < nats < ENTROPY + 0.08  # and it did learn where sentences end
