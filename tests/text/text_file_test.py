"""The lines of a text file, and how much of it was read. `shards_test` has the broken files."""

import gc
import gzip
import io
import lzma
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.text.text_file import TextFile, read_ahead

PACKERS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


@pytest.mark.parametrize(("packing", "name"), [("", "text.gz.1"), (".gz", "text.txt"), (".xz", "text.gz")])
def test_every_line_is_read_with_its_end_and_the_content_tells_the_compression(
    tmp_path: Path, packing: str, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(PACKERS[packing]("\ufeffone\n\n\ufeff \u2028 \r\n日本語".encode()))
    assert list(TextFile(path).lines()) == ["one\n", "\n", " \u2028 \r\n", "日本語"]


@pytest.mark.slow
@pytest.mark.parametrize("packing", PACKERS)
def test_the_share_read_grows_to_one(tmp_path: Path, packing: str) -> None:
    path = tmp_path / f"text{packing}"
    draw = Random(0)
    lines = "".join(f"{draw.random()}\n" for number in range(60_000))
    path.write_bytes(PACKERS[packing](lines.encode()))
    file = TextFile(path)
    assert file.share_read() is None
    shares = [file.share_read() or 0.0 for number, _ in enumerate(file.lines()) if number % 2000 == 0]
    assert len(shares) == 30 and shares == sorted(shares)
    assert 0 < shares[0] < 0.3 and 0.3 < shares[15] < 0.8
    assert file.share_read() == 1


@pytest.mark.parametrize(
    ("content", "got"), [(b"one\n\xff\n", "byte 0xff"), (b"one\ntwo\0\n", "NUL"), (b"one\n\xe2\x82", "byte 0xe2")]
)
def test_a_line_that_is_not_text_is_an_error_with_the_given_name(tmp_path: Path, content: bytes, got: str) -> None:
    (tmp_path / "copy").write_bytes(content)
    lines = TextFile(tmp_path / "copy", name="https://example.org/text").lines()
    with pytest.raises(ConfigurationError, match=rf"^https://example\.org/text, line 2: .*got .*{got}"):
        list(lines)


def test_a_line_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"one\n" + b"a" * 10))
    monkeypatch.setattr("elmo_plugin.text.text_file.LONGEST_LINE", 9)
    with pytest.raises(ConfigurationError, match=rf"{path}, line 2: .* 9 bytes"):
        list(TextFile(path).lines())


def test_an_xz_file_may_have_several_streams_and_zeros_between_them(tmp_path: Path) -> None:
    text = "".join(f"{number}\n" for number in range(50_000))
    parts = [lzma.compress(text[start : start + 70_000].encode()) for start in range(0, len(text), 70_000)]
    (tmp_path / "text.xz").write_bytes(bytes(4).join(parts) + bytes(8))
    assert "".join(TextFile(tmp_path / "text.xz").lines()) == text


@pytest.mark.parametrize("end", [0, 20, -1])
def test_an_xz_file_that_is_cut_short_is_an_error(tmp_path: Path, end: int) -> None:
    (tmp_path / "text.xz").write_bytes(lzma.compress(b"one\n")[:end])
    with pytest.raises(ConfigurationError, match=r"text\.xz: cannot be read to its end"):
        list(TextFile(tmp_path / "text.xz").lines())


def test_what_is_read_ahead_is_bounded_in_lines_and_characters() -> None:
    read: list[int] = []
    lines = (read.append(number) or "a" * 400_000 for number in range(9))  # type: ignore[func-returns-value]
    head, everything = read_ahead(lines, 5)
    assert len(head) == len(read) == 3 and len(list(everything)) == 9
    assert len(read_ahead(map(str, range(9)), 5)[0]) == 5


@pytest.mark.slow
@pytest.mark.parametrize("packing", ["", ".gz"])
def test_the_standard_input_may_be_compressed_and_stays_open(monkeypatch: pytest.MonkeyPatch, packing: str) -> None:
    buffer = io.BufferedReader(io.BytesIO(PACKERS[packing](b"one\ntwo\xff\n")))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=buffer))
    file = TextFile(Path("-"))
    lines = file.lines()
    assert next(lines) == "one\n" and file.share_read() is None
    with pytest.raises(ConfigurationError, match="standard input, line 2: expected UTF-8 text, got byte 0xff"):
        next(lines)
    gc.collect()
    assert not buffer.closed


def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[gzip.compress(b"one\ntwo\n")])
    writer.start()
    assert list(TextFile(tmp_path / "pipe").lines()) == ["one\n", "two\n"]
    writer.join()
