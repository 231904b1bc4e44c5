"""Batches of whole sentences: every sentence once, similar lengths, and no more tokens than allowed."""

from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.pretraining import loaders
from tests.loader_oracles import SENTENCES, build_loader, id_of, write_shards

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


def test_each_epoch_has_every_sentence_once_in_batches_of_similar_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaders, "SHUFFLED", 4)
    loader = batches_of(write_shards(tmp_path))
    epochs = []
    for _ in range(6):
        epoch = list(map(sentences_of, loader))
        assert len(epoch) == len(loader)
        epochs.append(list(chain(*epoch)))
        for in_block in (4, 4, 3):
            block: list[list[list[int]]] = []
            while sum(map(len, block)) < in_block:
                block.append(epoch.pop(0))
            spans = sorted((len(batch[0]), len(batch[-1])) for batch in block)
            assert all(longest <= shortest for (_, longest), (shortest, _) in pairwise(spans))
    assert all(sorted(epoch) == as_ids(SENTENCES) for epoch in epochs)
    assert len(set(map(str, epochs))) > 2


def test_with_a_number_of_batches_a_pass_goes_on_in_the_next_epoch(tmp_path: Path) -> None:
    path = write_shards(tmp_path)
    passes = [list(map(sentences_of, loader)) for loader in [batches_of(path)] * 3]
    shorter = batches_of(path, batches_per_epoch=len(passes[0]) - 1)
    found = [batch for _ in range(3) for batch in map(sentences_of, shorter)]
    assert found == list(chain(*passes))[: len(found)]


def test_sizes_that_fit_no_sentence_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"'max_sentence_length'.*'max_tokens' .100.*400"):
        batches_of(write_shards(tmp_path), max_tokens=100, max_sentence_length=400)
