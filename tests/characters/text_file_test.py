"""Lines of a text, empty ones too, and how much of the file lies behind; broken files stand in shards_test."""

import gzip
import io
import lzma
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.characters.text_file import TextFile

PACKERS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("packing", PACKERS)
def test_every_line_is_given_with_its_end(tmp_path: Path, packing: str) -> None:
    path = tmp_path / f"text{packing}"
    path.write_bytes(PACKERS[packing]("\ufeffone\n\n \u2028 \r\n日本語".encode()))
    assert list(TextFile(path).lines()) == ["one\n", "\n", " \u2028 \r\n", "日本語"]


@pytest.mark.parametrize("packing", PACKERS)
def test_the_share_read_grows_from_a_little_to_all(tmp_path: Path, packing: str) -> None:
    path = tmp_path / f"text{packing}"
    draw = Random(0)
    lines = "".join(f"{draw.random()}\n" for number in range(30_000))
    path.write_bytes(PACKERS[packing](lines.encode()))
    file = TextFile(path)
    assert file.share_read() is None
    shares = [file.share_read() or 0.0 for number, _ in enumerate(file.lines()) if number % 1000 == 0]
    assert len(shares) == 30 and shares == sorted(shares)
    assert 0 < shares[0] < 0.3 and 0.3 < shares[15] < 0.8
    assert file.share_read() == 1


def test_a_hyphen_is_the_standard_input_whose_length_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"one\ntwo\xff\n")))
    file = TextFile(Path("-"))
    lines = file.lines()
    assert next(lines) == "one\n" and file.share_read() is None
    with pytest.raises(ConfigurationError, match="standard input, line 2: found byte 0xff"):
        next(lines)
