"""A vocabulary that is not sorted by count is found in the text that training reads, if the softmax needs the order."""

import logging
import random
from typing import Any

import pytest
import torch

from elmo_plugin.pretraining import word_order
from elmo_plugin.pretraining.vocabulary import MARKS, WordIds
from tests.language_model_oracles import language_model

WORDS = [f"word{rank}" for rank in range(1, 401)]
"""By falling count in the text, where the word of rank r has a share of about 1 / r."""
SAMPLED: dict[str, Any] = {"type": "sampled", "n_samples": 20}
ADAPTIVE: dict[str, Any] = {"type": "adaptive", "cutoffs": [50], "div_value": 2.0}
SORTED, REVERSED = list(WORDS), WORDS[::-1]
ADDED, FEW = [*[f"new{k}" for k in range(100)], *WORDS], ["new", *WORDS]
ALPHABETICAL = sorted(WORDS, key=lambda word: word[::-1])


@pytest.mark.parametrize(
    ("softmax", "words", "is_warned"),
    [
        (SAMPLED, SORTED, False),
        (SAMPLED, REVERSED, True),
        (SAMPLED, ADDED, True),
        (SAMPLED, FEW, False),
        (SAMPLED, ALPHABETICAL, True),
        (ADAPTIVE, SORTED, False),
        (ADAPTIVE, ADDED, True),
        ({"type": "full"}, REVERSED, False),
    ],
)
def test_training_warns_once_if_the_rows_are_no_ranks(
    softmax: dict[str, Any],
    words: list[str],
    is_warned: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(word_order, "WORDS", 2000)
    model = language_model([*MARKS, *words], softmax=softmax).train()
    text = random.Random(1).choices(WORDS, [1 / rank for rank in range(1, 401)], k=2500)
    with caplog.at_level(logging.WARNING), torch.no_grad():
        for start in range(0, 2500, 500):
            sentences = [text[at : at + 10] for at in range(start, start + 500, 10)]
            model(tokens=WordIds(model.vocab).of_sentences(sentences))
    warnings = [record.getMessage() for record in caplog.records if "not sorted by count" in record.getMessage()]
    assert len(warnings) == is_warned
    if is_warned:
        line = words.index("word1") + 1 + len(MARKS)
        assert f"its line {line} is 'word1'" in warnings[0] and f"{softmax['type']!r}" in warnings[0]


def test_nats_lost_is_the_difference_of_two_log_likelihoods_by_hand() -> None:
    probabilities = torch.log1p(1 / (torch.arange(6) + 1.0)) / torch.log(torch.tensor(7.0))
    by_rows = 5 * probabilities[3].log() + 0 * probabilities[4].log() + 9 * probabilities[5].log()
    by_count = 9 * probabilities[3].log() + 5 * probabilities[4].log()
    counts = torch.tensor([0, 0, 0, 5, 0, 9])
    assert word_order.nats_lost(counts) == pytest.approx(float(by_count - by_rows) / 14, rel=1e-5)
