"""A vocabulary that is not sorted by count is found in the text that training reads, if the softmax needs the order."""

import logging
import random
from typing import Any

import pytest
import torch

from elmo_plugin.pretraining import metrics
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
    monkeypatch.setattr(metrics, "WORDS", 2000)
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


@pytest.mark.parametrize(
    ("size", "n_tokens", "words", "is_warned"),
    [
        (262, 1000, "alphabetical", True),
        (262, 1000, "sorted", False),
        (40, 250, "alphabetical", True),
        (40, 250, "sorted", False),
        (5000, 600, "sorted", False),  # of most words the text has none
        (5000, 600, "alphabetical", True),
        (262, 90, "alphabetical", False),  # too few words to say
    ],
)
def test_a_small_text_is_judged_when_its_first_epoch_ends(
    size: int, n_tokens: int, words: str, is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    draw = random.Random(2)
    by_count = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(size)]
    text = draw.choices(by_count, [1 / rank for rank in range(1, size + 1)], k=n_tokens)
    model = language_model(
        [*MARKS, *(by_count if words == "sorted" else sorted(by_count))], softmax=ADAPTIVE | {"cutoffs": [9]}
    )
    with caplog.at_level(logging.WARNING), torch.no_grad():
        for epoch in range(2):
            model.train()
            for start in range(0, n_tokens, 50):
                model(tokens=WordIds(model.vocab).of_sentences([text[start : start + 50]]))
            assert epoch > 0 or "not sorted by count" not in caplog.text
            model.get_metrics(reset=True)
            model.eval().get_metrics(reset=True)
    assert caplog.text.count("not sorted by count") == is_warned


def test_the_share_lost_is_a_ratio_of_log_likelihoods_by_hand() -> None:
    nats = -(torch.log1p(1 / (torch.arange(6) + 1.0)) / torch.log(torch.tensor(7.0))).log()
    by_rows = 5 * nats[3] + 0 * nats[4] + 9 * nats[5]
    by_count = 9 * nats[3] + 5 * nats[4]
    at_random = 14 * nats[3:].mean()
    counts = torch.tensor([0, 0, 0, 5, 0, 9])
    assert metrics.share_lost(counts) == pytest.approx(float((by_rows - by_count) / (at_random - by_count)), rel=1e-5)
