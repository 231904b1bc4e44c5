"""Windows over streams, compared word by word with bilm-tf's reader."""

from itertools import chain
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from allennlp.modules.elmo import batch_to_ids
from torch import Tensor

from tests.loader_oracles import SENTENCES, Row, build_loader, id_of, plain_windows, write_shards

N_TOKENS = sum(len(sentence) + 1 for sentence in SENTENCES)
SIZES = [(1, 1), (2, 5), (4, 20), (30, 3), (5, 1000)]


def streams(data_path: str, streams: int, window: int, **keys: Any) -> Any:
    """Build the loader from a config."""
    return build_loader(data_path, type="unrolled_streams", streams=streams, window=window, **keys)


def padded(rows: list[list[str]], window: int) -> list[list[int]]:
    """Convert words to ids, with 0 beyond the end of a row."""
    return [[*map(id_of, row), *[0] * (window - len(row))] for row in rows]


def assert_window(found: dict[str, Tensor], wanted: list[Row], window: int) -> None:
    """Return the ids and characters of one direction."""
    inputs, targets = ([list(part) for part in rows] for rows in zip(*wanted, strict=True))
    assert found["words"].tolist() == padded(inputs, window)
    assert found["targets"].tolist() == padded(targets, window)
    characters = batch_to_ids([*inputs, ["x"] * window])[:-1]  # (S, U, C)
    assert found["characters"].equal(characters)


@pytest.mark.parametrize(("n_streams", "window"), SIZES)
def test_windows_are_those_that_bilm_tf_reads(tmp_path: Path, n_streams: int, window: int) -> None:
    batches = [batch["windows"] for batch in streams(write_shards(tmp_path), n_streams, window, shuffle=False)]
    for direction in ("forward", "backward"):
        wanted = list(plain_windows(SENTENCES, n_streams, window, backward=direction == "backward"))
        for batch, rows in zip(batches, wanted, strict=True):
            assert_window(batch[direction], rows, window)


def words_of(batches: list[Any], direction: str) -> list[int]:
    """Return the ids of all targets of a direction, sorted, with the sentence ends."""
    targets = [batch["windows"][direction]["targets"] for batch in batches]
    return sorted(word for each in targets for word in each.flatten().tolist() if word)


@pytest.mark.parametrize(("n_streams", "window"), [(2, 5), (1, N_TOKENS), (3, 1), (2, 30), (16, 8)])
def test_each_epoch_has_every_sentence_once_in_as_few_windows_as_it_fills(
    tmp_path: Path, n_streams: int, window: int
) -> None:
    loader = streams(write_shards(tmp_path), n_streams, window, seed=3)
    assert len(loader) == ceil(N_TOKENS / (n_streams * window))
    epochs = [list(loader) for _ in range(4)]
    for epoch in epochs:
        assert len(epoch) == len(loader)
        assert words_of(epoch, "forward") == sorted([*chain(*(map(id_of, each) for each in SENTENCES)), *[2] * 11])
        assert words_of(epoch, "backward") == sorted([*chain(*(map(id_of, each) for each in SENTENCES)), *[1] * 11])
        for batch in epoch:  # no window is longer than it has to be
            forward = batch["windows"]["forward"]["targets"]
            assert (forward > 0).sum() <= n_streams * (window + 1)
    assert [batch["windows"]["first"] for batch in chain(*epochs)] == [True] + [False] * (4 * len(loader) - 1)


def test_until_the_text_ends_windows_are_those_that_bilm_tf_reads(tmp_path: Path) -> None:
    n_streams, window = 2, 5
    loader = streams(write_shards(tmp_path), n_streams, window, seed=3)
    for epoch in range(3):
        loader.rewind({"batches": 0, "place": (epoch, 0, 0, 0), "streams": [()] * 2, "windows_left": 0})
        sentences = [line.split() for line in loader.read_items()]
        loader.rewind({"batches": 0, "place": (epoch, 0, 0, 0), "streams": [()] * 2, "windows_left": 0})
        found = list(loader)
        for direction in ("forward", "backward"):
            wanted = list(plain_windows(sentences, n_streams, window, backward=direction == "backward"))
            whole = [rows for rows in wanted if all(len(inputs) == window for inputs, _ in rows)]
            assert len(whole) > 1
            for batch, rows in zip(found, whole, strict=False):
                assert_window(batch["windows"][direction], rows, window)


def test_a_text_shorter_than_one_batch_is_one_window(tmp_path: Path) -> None:
    (batch,) = streams(write_shards(tmp_path), 16, 8)
    assert int((batch["windows"]["forward"]["targets"] > 0).sum()) == N_TOKENS
