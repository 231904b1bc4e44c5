"""Reading text shards: the order of a pass, patterns, and errors that name the file."""

import gzip
import lzma
import re
from collections.abc import Callable
from itertools import groupby, permutations
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.pretraining import loaders
from elmo_plugin.text import find_shards
from tests.loader_oracles import build_loader

PACKERS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


def numbered(folder: Path, *sizes: int) -> list[Path]:
    """Write shards of these sizes, in which every sentence is different: `0 of 2`, `1 of 2`, …"""
    paths = [folder / f"{number}.txt" for number in range(len(sizes))]
    for shard, (path, size) in enumerate(zip(paths, sizes, strict=True)):
        path.write_text("".join(f"{line} of {shard}\n" for line in range(size)))
    return paths


def one_pass(paths: list[Path], shuffle: bool = False, seed: int = 0, epoch: int = 0) -> list[list[str]]:
    """Return the sentences of one pass."""
    loader = build_loader(str(paths[0].parent / "*"), type="unrolled_streams", shuffle=shuffle, seed=seed)
    loader.rewind({"batches": 0, "place": (epoch, 0, 0, 0), "streams": [], "windows_left": 0})
    return [line.split() for line in loader.read_items()]


def test_a_shuffled_pass_has_each_sentence_once_a_shard_at_a_time_block_by_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaders, "SHUFFLED", 20)
    monkeypatch.setattr(loaders, "GROUP", 1)
    paths = numbered(tmp_path, 50, 50, 50)
    found = [(int(shard), int(line)) for line, _, shard in one_pass(paths, shuffle=True)]
    for start in (0, 50, 100):
        shard = found[start][0]
        for first, last in ((0, 20), (20, 40), (40, 50)):
            block = found[start + first : start + last]
            assert block != sorted(block)
            assert sorted(block) == [(shard, line) for line in range(first, last)]
    assert {shard for shard, _ in found} == {0, 1, 2}


def test_small_shards_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = numbered(tmp_path, 3, 1, 2, 9, 1)
    monkeypatch.setattr(loaders, "GROUP", paths[0].stat().st_size + 1)
    groups = build_loader(str(tmp_path / "*"), type="unrolled_streams").groups
    assert [list(group) for group in groups] == [paths[:1], paths[1:3], paths[3:4], paths[4:]]
    shuffled = [int(shard) for _, _, shard in one_pass(paths, shuffle=True)]
    assert sorted(shuffled) == [0, 0, 0, 1, 2, 2, *[3] * 9, 4]
    together = [{0: "a", 1: "b", 2: "b", 3: "c", 4: "d"}[shard] for shard in shuffled]
    assert [group for group, _ in groupby(together)] in [list(order) for order in permutations("abcd")]


def test_the_order_depends_only_on_the_seed_and_the_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaders, "GROUP", 1)
    paths = numbered(tmp_path, *[6] * 12)
    first = one_pass(paths, shuffle=True)
    assert one_pass(paths, shuffle=True) == first
    others = [one_pass(paths, shuffle=True, epoch=1), one_pass(paths, shuffle=True, seed=1)]
    for other in others:
        assert other != first and sorted(other) == sorted(first)
        assert [tokens[2] for tokens in other[::6]] != [tokens[2] for tokens in first[::6]]
    assert others[0] != others[1]


@pytest.mark.parametrize("packing", [".gz", ".xz"])
def test_an_error_names_a_truncated_or_damaged_compressed_file(tmp_path: Path, packing: str) -> None:
    path = tmp_path / f"shard{packing}"
    packed = PACKERS[packing]("".join(f"{number} " for number in range(5000)).encode() + b"\nlast\n")
    half = len(packed) // 2
    for broken in (packed[:half], packed[:half] + b"damaged!" + packed[half + 8 :]):
        path.write_bytes(broken)
        with pytest.raises(ConfigurationError, match=str(path)):
            one_pass([path])


def test_a_pattern_finds_files_in_sorted_order_at_any_depth(tmp_path: Path) -> None:
    names = ["b.txt", "a.txt", "a.gz", "deep/er/c.txt", "deep/d.txt", "[1].txt"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder.txt").mkdir()

    def found(pattern: str) -> list[str]:
        return [path.relative_to(tmp_path).as_posix() for path in find_shards(f"{tmp_path}/{pattern}")]

    assert found("*.txt") == ["[1].txt", "a.txt", "b.txt"]
    assert found("?.*") == ["a.gz", "a.txt", "b.txt"]
    assert found("**/*.txt") == ["[1].txt", "a.txt", "b.txt", "deep/d.txt", "deep/er/c.txt"]
    assert found("deep/**") == ["deep/d.txt", "deep/er/c.txt"]
    assert found("a.txt") == ["a.txt"]
    assert found("[1].txt") == ["[1].txt"]
    assert found("[ab].txt") == ["a.txt", "b.txt"]


def test_a_pattern_that_matches_no_file_lists_the_deepest_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        (tmp_path / f"{number}.gz").touch()
    (tmp_path / "bare").mkdir()
    listed = f"'{tmp_path}' .*0.gz, 1.gz, 2.gz, 3.gz, 4.gz, …"
    monkeypatch.chdir(tmp_path)
    for given in (f"{tmp_path}/*.txt", "no/such/**/shard*"):
        with pytest.raises(ConfigurationError, match=f"'{re.escape(given)}' .*{listed}"):
            find_shards(given)
    with pytest.raises(ConfigurationError, match=f"'{tmp_path}/bare' contains nothing"):
        find_shards("bare/*")
