"""Windows over streams, compared word by word with bilm-tf's reader."""

from collections.abc import Iterator
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.modules.elmo import batch_to_ids
from torch import Tensor

from tests.loader_oracles import LINES, SENTENCES, Row, build_loader, id_of, plain_windows, write_shards

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


def all_passes(loader: Any) -> Iterator[list[str]]:
    """Yield the sentences of endless passes."""
    for epoch in count():
        yield from (sentence for sentence, _ in loader.stream.sentences(epoch))


@pytest.mark.parametrize(("n_streams", "window"), [(2, 5), (1, N_TOKENS)])
def test_shuffled_passes_run_over_into_each_other(tmp_path: Path, n_streams: int, window: int) -> None:
    loader = streams(write_shards(tmp_path), n_streams, window, seed=3)
    assert len(loader) == N_TOKENS // (n_streams * window)
    passes = [list(islice(all_passes(loader), n * len(LINES), (n + 1) * len(LINES))) for n in range(3)]
    assert all(sorted(each) == sorted(SENTENCES) for each in passes)
    assert passes[0] != passes[1] != passes[2]
    epochs = [list(loader) for _ in range(3)]
    assert [len(epoch) for epoch in epochs] == [len(loader)] * 3
    for direction in ("forward", "backward"):
        wanted = plain_windows(all_passes(loader), n_streams, window, backward=direction == "backward")
        for batch, rows in zip(chain(*epochs), wanted, strict=False):
            assert_window(batch["windows"][direction], rows, window)
    assert [batch["windows"]["first"] for batch in chain(*epochs)] == [True] + [False] * (3 * len(loader) - 1)


def test_a_text_shorter_than_one_batch_is_rejected_for_training_unless_it_is_repeated(tmp_path: Path) -> None:
    path = write_shards(tmp_path)
    with pytest.raises(ConfigurationError, match=f"128 .*'streams' 16 × 'window' 8.* {N_TOKENS};"):
        list(streams(path, 16, 8))
    batches = list(streams(path, 16, 8, batches_per_epoch=3))
    assert len(batches) == 3
    assert all((batch["windows"]["forward"]["targets"] > 0).all() for batch in batches)
