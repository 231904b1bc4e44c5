"""Batches of whole sentences: every sentence once, similar lengths, and no more tokens than allowed."""

from collections.abc import Iterator
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.pretraining import sentence_batches
from tests.loader_oracles import LINES, SENTENCES, build_loader, id_of, write_shards

MAX_TOKENS = 24


def sentences_of(batch: dict[str, Any]) -> list[list[int]]:
    """Return the ids of each sentence of a batch, which must be left-aligned."""
    rows = [[word for word in row if word] for row in batch["tokens"]["words"]["tokens"].tolist()]
    assert [len(row) for row in rows] == (batch["tokens"]["words"]["tokens"] > 0).sum(dim=1).tolist()
    return rows


def batches_of(data_path: str, **keys: Any) -> Any:
    """Build the loader from a config."""
    sizes = {"max_tokens": MAX_TOKENS, "max_sentence_length": 20}
    return build_loader(data_path, **{"type": "sentence_batches", **sizes, **keys})


def as_ids(sentences: list[list[str]]) -> list[list[int]]:
    """Return sentences sorted, to compare them without their order."""
    return sorted([*map(id_of, sentence)] for sentence in sentences)


def read_on(loader: Any, epochs: int) -> Iterator[list[list[int]]]:
    """Return the batches of several epochs."""
    for _ in range(epochs):
        yield from map(sentences_of, loader)


@pytest.mark.parametrize("max_tokens", [21, 60, 10_000])
def test_a_single_pass_has_every_sentence_once_by_rising_length(tmp_path: Path, max_tokens: int) -> None:
    loader = batches_of(write_shards(tmp_path), shuffle=False, max_tokens=max_tokens)
    for _ in range(2):  # and the next evaluation too
        batches = [sentences_of(batch) for batch in loader]
        lengths = [len(sentence) for batch in batches for sentence in batch]
        assert sorted(chain(*batches)) == as_ids(SENTENCES)
        assert lengths == sorted(lengths)
        assert all(len(batch) * (max(map(len, batch)) + 1) <= max_tokens for batch in batches)
        assert len(batches) == 1 or max_tokens < 10_000


def test_each_shuffled_pass_has_every_sentence_once_in_batches_of_similar_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentence_batches, "SENTENCES_IN_POOL", 4)
    loader = batches_of(write_shards(tmp_path))
    found = read_on(loader, epochs=20)
    passes = []
    for _ in range(4):
        for in_pool in (4, 4, 3):
            pool: list[list[list[int]]] = []
            while sum(map(len, pool)) < in_pool:
                pool.append(next(found))
            spans = sorted((len(batch[0]), len(batch[-1])) for batch in pool)
            assert all(longest <= shortest for (_, longest), (shortest, _) in pairwise(spans))
            passes.extend(pool)
    sentences = list(chain(*passes))
    each = [sentences[start : start + len(LINES)] for start in range(0, len(sentences), len(LINES))]
    assert len(each) == 4
    assert all(sorted(one) == as_ids(SENTENCES) for one in each)
    assert each[0] != each[1] != each[2]


def test_an_epoch_has_as_many_batches_as_a_pass_fills_and_continues_in_the_next_pass(tmp_path: Path) -> None:
    path = write_shards(tmp_path)
    n_tokens = sum(len(sentence) + 1 for sentence in SENTENCES)
    loader = batches_of(path)
    epochs = [list(map(sentences_of, loader)) for _ in range(5)]
    assert [len(epoch) for epoch in epochs] == [len(loader)] * 5 == [n_tokens // MAX_TOKENS] * 5
    longer = list(read_on(batches_of(path, batches_per_epoch=5 * len(loader)), epochs=1))
    assert list(chain(*epochs)) == longer
    assert sorted(islice(chain(*longer), len(LINES))) == as_ids(SENTENCES)  # a pass is longer than an epoch here


def test_sizes_that_fit_no_sentence_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"'max_sentence_length'.*'max_tokens' .100.*400"):
        batches_of(write_shards(tmp_path), max_tokens=100, max_sentence_length=400)
