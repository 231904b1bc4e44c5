"""Files appear complete, those that are written together appear together, and two writers are both right."""

import os
import signal
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.common import atomic_file, atomic_folder


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


def killed_while_it_writes(target: Path, is_folder: bool) -> None:
    """Let another process die within `atomic_folder` or `atomic_file`."""
    process = os.fork()
    if not process:
        with atomic_folder(target, last="file") if is_folder else atomic_file(target / "file") as partial:
            (partial / "file" if is_folder else partial).write_text("half", encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(process, 0)


@pytest.mark.parametrize("is_folder", [True, False])
def test_leftovers_of_a_killed_process_are_removed_by_the_next_write_into_the_folder(
    tmp_path: Path, is_folder: bool
) -> None:
    (tmp_path / "mine.partial").touch()
    killed_while_it_writes(tmp_path, is_folder)
    assert len(list(tmp_path.iterdir())) == 2
    with atomic_file(tmp_path / "other") as partial:
        partial.touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.partial", "other"]
    killed_while_it_writes(tmp_path, is_folder)
    with atomic_folder(tmp_path, last="new") as partial:
        (partial / "new").touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.partial", "new", "other"]


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    target = tmp_path / "file"
    with atomic_file(target) as first, first.open("wb") as file:
        file.write(b"first, begun ")
        file.flush()
        with atomic_file(target) as second:
            second.write_bytes(b"second")
        assert target.read_bytes() == b"second"
        file.write(b"and ended")
    assert target.read_bytes() == b"first, begun and ended"
    assert list(tmp_path.iterdir()) == [target]


def test_two_writers_of_one_folder_do_not_mix_their_files(tmp_path: Path) -> None:
    with atomic_folder(tmp_path, last="b") as first:
        (first / "a").write_text("first", encoding="utf-8")
        with atomic_folder(tmp_path, last="b") as second:
            for name in ("a", "b"):
                (second / name).write_text("second", encoding="utf-8")
        assert {path.read_text(encoding="utf-8") for path in tmp_path.glob("?")} == {"second"}
        (first / "b").write_text("first", encoding="utf-8")
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {"a": "first", "b": "first"}


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
