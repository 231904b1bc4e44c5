"""Files that are written together are there together."""

from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.atomic_write import atomic_folder


def test_files_are_renamed_into_place_when_all_are_written(tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    for name in ("a", "other"):
        (tmp_path / "to" / name).write_text("old", encoding="utf-8")
    with atomic_folder(tmp_path / "to") as partial:
        for name in ("a", "b"):
            (partial / name).write_text("new", encoding="utf-8")
        assert (tmp_path / "to/a").read_text(encoding="utf-8") == "old" and not (tmp_path / "to/b").exists()
    found = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "to").iterdir()}
    assert found == {"a": "new", "b": "new", "other": "old"}


@pytest.mark.parametrize("error", [OSError("no space"), KeyError("bias"), KeyboardInterrupt()])
def test_what_was_there_stays_if_anything_is_raised(tmp_path: Path, error: BaseException) -> None:
    (tmp_path / "a").write_text("old", encoding="utf-8")
    wanted: type[BaseException] = ConfigurationError if isinstance(error, OSError) else type(error)
    with pytest.raises(wanted) as raised, atomic_folder(tmp_path) as partial:
        (partial / "a").write_text("new", encoding="utf-8")
        raise error
    assert wanted is not ConfigurationError or f"'{tmp_path}' cannot be written: no space" in str(raised.value)
    assert [path.read_text(encoding="utf-8") for path in tmp_path.iterdir()] == ["old"]


def test_files_are_readable_by_whom_the_system_says(tmp_path: Path) -> None:
    (tmp_path / "any").touch()
    with atomic_folder(tmp_path / "a/b") as partial:
        (partial / "file").touch()
    assert (tmp_path / "a/b/file").stat().st_mode == (tmp_path / "any").stat().st_mode
