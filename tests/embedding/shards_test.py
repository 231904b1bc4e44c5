"""Shards of several processes, compared with the file of one. They need not run at the same time."""

import json
import os
from collections import ChainMap
from pathlib import Path
from typing import Any, Optional

import h5py
import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError
from h5py import h5f

from elmo_plugin.embedding import Hdf5File, NpzFile, ParquetFile, Share, VectorFile, corpus
from elmo_plugin.embedding.shards import check_processes
from tests.embedding_runs import CHARACTERS, break_off, embed, write_text
from tests.full_disk import disk_of
from tests.oracles import write_files
from tests.task_oracles import small_bilm, warm_bilm

LINES = 120
WINDOW = CHARACTERS // 2
"""Characters of a window. The text has about six windows of about six batches."""
FIRST, SECOND = Share(0, 2), Share(1, 2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the small biLM and a text of several windows, the last of them not full."""
    monkeypatch.setattr(corpus, "CHARACTERS_IN_WINDOW", WINDOW)
    write_files(tmp_path / "bilm", small_bilm())
    write_text(tmp_path / "text", LINES)
    return tmp_path


def names(folder: Path) -> list[str]:
    """The names of the files that the runs left."""
    return sorted(path.name for path in folder.iterdir() if path.name not in {"bilm", "text"})


def embed_shards(folder: Path, target: str, file: VectorFile, shares: tuple[Share, ...] = (FIRST, SECOND)) -> None:
    """Write the shards one after the other."""
    for share in shares:
        embed(folder, target, file, share=share)


def contents(path: Path) -> dict[str, Any]:
    """The datasets of an hdf5 file, its own and linked ones, with the index."""
    with h5py.File(path) as file:
        return {key: dataset[()].tolist() for key, dataset in file.items()}


def manifest(folder: Path, target: str) -> Any:
    return json.loads((folder / f"{target}.json").read_text())


def check_manifest(folder: Path, target: str, size: int) -> None:
    """Check that every line is in one shard, and that the shards exist."""
    joined = manifest(folder, target)
    lines = [line for shard in joined["shards"] for start, stop in shard["lines"] for line in range(start, stop)]
    assert sorted(lines) == list(range(LINES)) and joined["sentences"] == LINES
    assert joined["tokens"] == sum(shard["tokens"] for shard in joined["shards"])
    assert len(joined["shards"]) == size and all((folder / shard["file"]).exists() for shard in joined["shards"])


@pytest.mark.parametrize("ranks", [(0, 1), (1, 0), (2, 0, 1), range(9)])
def test_the_joined_shards_read_like_the_file_of_one_process(folder: Path, ranks: tuple[int, ...]) -> None:
    """They are equal to the bit, even if a process has nothing to do."""
    size = len(ranks)
    counts = []
    for rank in ranks:
        assert not (folder / "vectors.hdf5").exists()
        counts.append(embed(folder, "vectors.hdf5", Hdf5File(), share=Share(rank, size)))
    assert tuple(map(sum, zip(*counts, strict=True))) == embed(folder, "whole", Hdf5File())
    assert contents(folder / "vectors.hdf5") == contents(folder / "whole")
    check_manifest(folder, "vectors.hdf5", size)
    shards = [f"vectors-{rank:05}-of-{size:05}.hdf5" for rank in range(size)]
    assert names(folder) == sorted(
        ["vectors.hdf5", "vectors.hdf5.json", "whole", *shards, *(f"{shard}.json" for shard in shards)]
    )
    assert (min(counts)[0] == 0) == (size == 9)


@pytest.mark.parametrize("after", [None, 5])
def test_growing_windows_are_dealt_out_and_joined_to_the_same_vectors(
    folder: Path, monkeypatch: pytest.MonkeyPatch, after: Optional[int]
) -> None:
    """They are equal to the bit, even if a process was interrupted."""
    monkeypatch.setattr(corpus, "SMALLEST_WINDOW", 100)
    monkeypatch.setattr(corpus, "WINDOWS_OF_A_SIZE", 5)
    for rank in range(4):
        if after is not None:
            with monkeypatch.context() as broken, pytest.raises(KeyboardInterrupt):
                break_off(broken, after)
                embed(folder, "vectors.hdf5", Hdf5File(), share=Share(rank, 4))
        assert embed(folder, "vectors.hdf5", Hdf5File(), share=Share(rank, 4)).sentences > LINES / 10
    embed(folder, "whole", Hdf5File())
    assert contents(folder / "vectors.hdf5") == contents(folder / "whole")
    check_manifest(folder, "vectors.hdf5", 4)


def test_the_joined_file_may_move_with_its_shards_and_be_read_from_anywhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed_shards(folder, "vectors.hdf5", Hdf5File())
    wanted = contents(folder / "vectors.hdf5")
    folder.rename(moved := folder.with_name("moved"))
    monkeypatch.chdir("/")
    assert contents(moved / "vectors.hdf5") == wanted
    assert h5f.get_obj_count(h5f.OBJ_ALL, h5f.OBJ_FILE | h5f.OBJ_DATASET) == 0


def test_sentences_as_keys_lead_to_the_first_of_equal_ones(folder: Path) -> None:
    embed_shards(folder, "vectors.hdf5", Hdf5File(use_sentence_keys=True), (SECOND, FIRST))
    embed(folder, "whole", Hdf5File(use_sentence_keys=True))
    assert contents(folder / "vectors.hdf5") == contents(folder / "whole")


def test_arrays_of_npz_shards_are_those_of_one_file(folder: Path) -> None:
    embed_shards(folder, "vectors.npz", NpzFile())
    embed(folder, "whole", NpzFile())
    check_manifest(folder, "vectors.npz", 2)
    assert "vectors.npz" not in names(folder)
    joined = ChainMap(*(np.load(folder / shard["file"]) for shard in manifest(folder, "vectors.npz")["shards"]))
    with np.load(folder / "whole") as whole:
        assert set(joined) == set(whole.files)
        for key in whole.files:
            np.testing.assert_array_equal(joined[key], whole[key])


def test_rows_of_parquet_shards_are_those_of_one_file(folder: Path) -> None:
    arrow: Any = pytest.importorskip("pyarrow.parquet")
    embed_shards(folder, "vectors.parquet", ParquetFile())
    embed(folder, "whole", ParquetFile())
    shards = [folder / shard["file"] for shard in manifest(folder, "vectors.parquet")["shards"]]
    files = sorted(file for shard in shards for file in shard.iterdir())
    assert arrow.read_table(files).sort_by("line").equals(arrow.read_table(folder / "whole").sort_by("line"))


@pytest.mark.parametrize("after", [3, 10])
def test_an_unfinished_shard_is_resumed_and_a_complete_one_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    embed(folder, "vectors.npz", NpzFile(), share=FIRST)
    with monkeypatch.context() as broken:
        break_off(broken, after)
        assert embed(folder, "vectors.npz", NpzFile(), share=FIRST).sentences > 0
        with pytest.raises(KeyboardInterrupt):
            embed(folder, "vectors.npz", NpzFile(), share=SECOND)
    assert ("vectors-00001-of-00002.npz.part" in names(folder)) == (after == 10)
    assert "vectors.npz.json" not in names(folder)
    embed(folder, "vectors.npz", NpzFile(), share=SECOND)
    embed(folder, "undisturbed.npz", NpzFile(), share=SECOND)
    shard = "-00001-of-00002.npz"
    assert (folder / f"vectors{shard}").read_bytes() == (folder / f"undisturbed{shard}").read_bytes()
    check_manifest(folder, "vectors.npz", 2)


RENAMES = [
    "run.json",
    "vectors-00001-of-00002.hdf5.json",
    "vectors-00001-of-00002.hdf5",
    "vectors.hdf5.json",
    "vectors.hdf5",
]


@pytest.mark.parametrize("before", RENAMES)
def test_a_run_killed_before_a_rename_is_resumed_to_the_same_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    embed_shards(folder, "vectors.hdf5", Hdf5File())
    wanted = {path: path.read_bytes() for path in folder.glob("vectors*")}
    for path in wanted:
        if "00000" not in path.name:
            path.unlink()
    rename = os.replace

    def failing(source: Path, target: Path) -> None:
        if Path(target).name == before:
            raise KeyboardInterrupt
        rename(source, target)

    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", failing)
        broken.setattr(Path, "replace", failing)
        with pytest.raises(KeyboardInterrupt):
            embed(folder, "vectors.hdf5", Hdf5File(), share=SECOND)
    embed(folder, "vectors.hdf5", Hdf5File(), share=SECOND)
    assert {path: path.read_bytes() for path in folder.glob("vectors*")} == wanted


def test_a_folder_that_a_kill_left_beside_a_complete_shard_is_removed(folder: Path) -> None:
    embed(folder, "vectors.npz", NpzFile(), share=FIRST)
    (folder / "vectors-00000-of-00002.npz.part").mkdir()
    embed(folder, "vectors.npz", NpzFile(), share=FIRST)
    assert names(folder) == ["vectors-00000-of-00002.npz", "vectors-00000-of-00002.npz.json"]


@pytest.mark.parametrize(
    ("file", "changes", "found"),
    [
        (NpzFile(), {"bilm": "warm", "initial_state": "warm"}, "'initial_state': expected 'warm .*, got 'zero"),
        (NpzFile(), {"half": True}, "'type of numbers': expected 'float16', got 'float32'"),
        (NpzFile(), {"tokens_per_batch": 50}, "'tokens per batch'"),
        (NpzFile(), {"text": "changed"}, "'text'"),
        (NpzFile(compress=True), {}, "'file'"),
    ],
)
@pytest.mark.parametrize("share", [FIRST, SECOND])
def test_a_shard_of_another_run_is_rejected_by_its_own_process_and_by_the_one_that_joins(
    folder: Path, share: Share, file: VectorFile, changes: dict[str, Any], found: str
) -> None:
    (folder / "changed").write_text((folder / "text").read_text() + "one more line\n")
    write_files(folder / "warm", warm_bilm())
    embed(folder, "vectors.npz", NpzFile(), share=FIRST)
    with pytest.raises(ConfigurationError, match=f"vectors-00000-of-00002.npz'.*{found}"):
        embed(folder, "vectors.npz", file, share=share, **changes)
    assert not (folder / "vectors.npz.json").exists()


def test_an_unfinished_shard_of_another_run_is_rejected(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "changed").write_text((folder / "text").read_text() + "one more line\n")
    with monkeypatch.context() as broken:
        break_off(broken, 10)
        with pytest.raises(KeyboardInterrupt):
            embed(folder, "vectors.npz", NpzFile(), share=SECOND)
    for changes, key in (({"pool": True}, "'shape'"), ({"text": "changed"}, "'text'")):
        with pytest.raises(ConfigurationError, match=f"00001-of-00002.npz.part'.*{key}"):
            embed(folder, "vectors.npz", NpzFile(), share=SECOND, **changes)


@pytest.mark.parametrize("name", ["vectors.npz", "vectors.npz.json", "vectors-00001-of-00002.npz"])
def test_an_existing_target_is_kept(folder: Path, name: str) -> None:
    (folder / name).write_text("good")
    with pytest.raises(ConfigurationError, match=f"{name}' exists"):
        embed(folder, "vectors.npz", NpzFile(), share=SECOND)
    assert (folder / name).read_text() == "good" and names(folder) == [name]


def test_a_target_created_while_the_shards_were_written_is_kept(folder: Path) -> None:
    embed_shards(folder, "vectors.npz", NpzFile())
    (folder / "vectors.npz.json").unlink()
    (folder / "vectors.npz").write_text("good")
    with pytest.raises(ConfigurationError, match=r"vectors.npz' exists"):
        embed(folder, "vectors.npz", NpzFile(), share=SECOND)
    assert (folder / "vectors.npz").read_text() == "good"


@pytest.mark.parametrize("record", [None, '{"run'])
def test_a_missing_or_damaged_manifest_entry_is_an_error(folder: Path, record: str) -> None:
    embed(folder, "vectors.npz", NpzFile(), share=FIRST)
    path = folder / "vectors-00000-of-00002.npz.json"
    path.unlink() if record is None else path.write_text(record)
    with pytest.raises(ConfigurationError, match=r"00000-of-00002\.npz\.json'"):
        embed(folder, "vectors.npz", NpzFile(), share=SECOND)


def test_a_disk_without_room_for_the_links_leaves_the_shards(folder: Path) -> None:
    embed_shards(folder, "vectors.hdf5", Hdf5File())
    whole = (folder / "vectors.hdf5").read_bytes()
    (folder / "vectors.hdf5").unlink()
    with (
        pytest.raises(ConfigurationError, match=r"vectors.hdf5' cannot be written: .*File too large"),
        disk_of(len(whole) // 2),
    ):
        embed(folder, "vectors.hdf5", Hdf5File(), share=SECOND)
    assert not list(folder.glob("*.part*")) and not (folder / "vectors.hdf5").exists()
    embed(folder, "vectors.hdf5", Hdf5File(), share=SECOND)
    assert (folder / "vectors.hdf5").read_bytes() == whole


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("vectors-00001-of-00003.npz", 3),
        ("vectors-00001-of-00003.npz.part", 3),
        ("vectors-00001-of-00003.npz.json", 3),
        ("vectors.npz.part", 1),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_a_target_begun_by_another_number_of_processes_is_rejected(
    tmp_path: Path, name: str, found: int, size: int
) -> None:
    (tmp_path / name).touch()
    if size == found:
        check_processes(tmp_path / "vectors.npz", size)
        return
    with pytest.raises(ConfigurationError, match=f"{name}': expected a run of {size} .* got a run of {found};"):
        check_processes(tmp_path / "vectors.npz", size)


@pytest.mark.parametrize("name", ["vectors.npz", "vectors-00000-of-00002.hdf5", "my-vectors-00000-of-00002"])
def test_files_of_other_targets_are_ignored(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    check_processes(tmp_path / "vectors.npz", 3)
    check_processes(tmp_path / "vectors", 3)
