"""The folder of an unfinished output: which runs may resume it."""

import json
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.embedding.part_folder import part_folder, part_names, refuse_existing

RUN = {"weights": "abc", "shape": [2, -1, 3]}


def keep_a_part(folder: Path) -> None:
    with part_folder(folder, RUN) as parts:
        (parts / "000000000000-ab.npz").write_text("a part")
        (parts / "000000000009-cd.npz.partial").write_text("half a part")


def test_parts_are_kept_for_the_same_run_and_rejected_for_another(tmp_path: Path) -> None:
    keep_a_part(tmp_path / "part")
    with part_folder(tmp_path / "part", RUN):
        assert part_names(tmp_path / "part") == ["000000000000-ab.npz"]
    files = {path: path.read_bytes() for path in (tmp_path / "part").rglob("*") if path.is_file()}
    with pytest.raises(ConfigurationError, match=r"part' .*'weights': expected 'xyz', got 'abc'"):
        part_folder(tmp_path / "part", {**RUN, "weights": "xyz"}).__enter__()
    assert files == {path: path.read_bytes() for path in (tmp_path / "part").rglob("*") if path.is_file()}


def test_a_folder_without_parts_is_removed_and_one_left_by_a_kill_may_be_used_by_any_run(tmp_path: Path) -> None:
    with part_folder(tmp_path / "part", RUN):
        assert (tmp_path / "part").exists()
    assert not (tmp_path / "part").exists()
    (tmp_path / "part").mkdir()
    (tmp_path / "part/run.json.partial").write_text('{"weig')
    keep_a_part(tmp_path / "part")
    assert json.loads((tmp_path / "part/run.json").read_text()) == RUN


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "novel").write_text("Chapter one")
    with pytest.raises(ConfigurationError, match=str(tmp_path)):
        part_folder(tmp_path, RUN).__enter__()
    assert [path.name for path in tmp_path.iterdir()] == ["novel"]


def test_one_process_at_a_time_uses_a_folder(tmp_path: Path) -> None:
    with part_folder(tmp_path / "part", RUN) as parts:
        (parts / "0-ab").touch()
        with pytest.raises(ConfigurationError, match="another process"):
            part_folder(tmp_path / "part", RUN).__enter__()
    with part_folder(tmp_path / "part", RUN):
        pass


def test_a_damaged_description_of_the_run_is_named(tmp_path: Path) -> None:
    keep_a_part(tmp_path / "part")
    (tmp_path / "part/run.json").write_text('{"weig')
    with pytest.raises(ConfigurationError, match=r"part/run\.json'"):
        part_folder(tmp_path / "part", RUN).__enter__()


def test_empty_parts_whose_output_is_gone_are_not_used(tmp_path: Path) -> None:
    """A run was killed before it removed the folder, then the output was deleted."""
    keep_a_part(tmp_path / "part")
    (tmp_path / "part/plan").touch()
    with part_folder(tmp_path / "part", RUN):
        assert part_names(tmp_path / "part") == []


@pytest.mark.parametrize(
    ("left", "is_removed"),
    [
        (["run.json", "plan", "parts/1.npz"], True),  # hdf5 and npz: the parts are empty
        (["run.json"], True),  # Parquet: the parts are the output
        ([], True),
        (["run.json", "parts/1.npz"], False),
        (["run.json", "plan", "joined", "parts/1.npz"], False),
        (["novel"], False),
    ],
)
def test_a_folder_left_beside_an_output_is_removed_if_its_parts_are_empty(
    left: list[str], is_removed: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "output.part"
    for name in ["", *left]:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch() if name else folder.mkdir()
    refuse_existing(tmp_path / "output")
    assert folder.exists()
    (tmp_path / "output").write_text("good")
    with pytest.raises(ConfigurationError, match="output' exists"):
        refuse_existing(tmp_path / "output")
    assert folder.exists() is not is_removed and (tmp_path / "output").read_text() == "good"
