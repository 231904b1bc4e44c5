"""What a cache or an unfinished run says it was made with, if that is damaged or someone else's."""

import os
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.common import check_made_with


def test_settings_are_read_from_a_file_or_a_text(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"a": [1], "more": 2}', encoding="utf-8")
    for found in (tmp_path / "run.json", b'{"a": [1]}', {"a": [1]}):
        check_made_with("place", found, {"a": [1]}, "delete it")
        with pytest.raises(
            ConfigurationError, match=r"'place' was made with .*'a': expected 2, got \[1\].*; delete it"
        ):
            check_made_with("place", found, {"a": 2}, "delete it")


@pytest.mark.parametrize("text", [b"[]", b"1", b"{", b"[" * 100_000, b"\xff", b"[" + b"[]," * 2**21 + b"[]]"])
def test_anything_else_is_an_error_that_names_the_place(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "run.json").write_bytes(text)
    for found in (tmp_path / "run.json", text):
        with pytest.raises(ConfigurationError, match=r"'place' does not say what it was made with: .*; delete it"):
            check_made_with("place", found, {"a": 2}, "delete it")


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.json")
    with pytest.raises(ConfigurationError, match="expected a file, got a folder or a device"):
        check_made_with("place", tmp_path / "run.json", {"a": 2}, "delete it")
