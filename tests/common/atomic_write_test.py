"""Files that are written together appear together."""

from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.common import atomic_folder


@pytest.mark.parametrize(
    ("error", "wanted"), [(OSError("no space"), ConfigurationError), (KeyboardInterrupt(), KeyboardInterrupt)]
)
def test_old_files_stay_if_anything_is_raised(
    tmp_path: Path, error: BaseException, wanted: type[BaseException]
) -> None:
    (tmp_path / "a").write_text("old", encoding="utf-8")
    with pytest.raises(wanted) as raised, atomic_folder(tmp_path, last="a") as partial:
        (partial / "a").write_text("new", encoding="utf-8")
        raise error
    assert wanted is not ConfigurationError or f"'{tmp_path}' cannot be written: no space" in str(raised.value)
    assert [path.read_text(encoding="utf-8") for path in tmp_path.iterdir()] == ["old"]


def test_files_have_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "any").touch()
    with atomic_folder(tmp_path / "a/b", last="file") as partial:
        (partial / "file").touch()
    assert (tmp_path / "a/b/file").stat().st_mode == (tmp_path / "any").stat().st_mode


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".partial").mkdir()
    (tmp_path / ".partial/left").touch()
    with atomic_folder(tmp_path, last="new") as partial:
        (partial / "new").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_old_and_new_files_are_never_there_together_without_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("old", encoding="utf-8")
    seen: list[dict[str, str]] = []
    replace = Path.replace

    def watched(source: Path, target: Path) -> None:
        seen.append({path.name: path.read_text(encoding="utf-8") for path in tmp_path.glob("?")})
        replace(source, target)

    monkeypatch.setattr(Path, "replace", watched)
    for _ in range(2):  # the second time the same files are there
        with atomic_folder(tmp_path, last="b") as partial:
            for name in ("a", "b", "c"):
                (partial / name).write_text("new", encoding="utf-8")
    assert seen == [{"a": "old", "c": "old"}, {"a": "new", "c": "old"}, {"a": "new", "c": "new"}]
