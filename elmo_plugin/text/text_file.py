"""Text files, plain or compressed, read line by line in constant memory."""

import bz2
import gzip
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from glob import glob
from io import BufferedReader, RawIOBase
from itertools import chain
from os.path import expanduser, isdir, isfile, realpath
from pathlib import Path
from typing import Any, Optional, cast

from allennlp.common.checks import ConfigurationError
from more_itertools import unique_everseen

from elmo_plugin.common import named_errors, some_of

LONGEST_LINE = 2**22
"""The largest line in bytes. A compressed file of a kilobyte can hold a line that fills the memory."""
LONGEST_SENTENCE = 2**20
"""The most characters of a sentence that takes several lines: each of its tokens is in memory."""
LONGEST_HEAD = 2**20
"""The characters after which no further line is read to guess what a file is."""
MOST_FOR_XZ = 2**27
"""The bytes that unpacking xz may take. `xz -9` needs half of it, but a file of 100 kB may ask for gigabytes."""


class XzFile(RawIOBase):
    """The content of an xz file, which may consist of several streams. `lzma.open` cannot limit the memory."""

    def __init__(self, packed: "BufferedReader[Any]") -> None:
        self._packed = packed
        self._stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_FOR_XZ)

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read at least one byte, except at the end of the file."""
        while True:
            data = b""
            if self._stream.eof:
                data = self._stream.unused_data.lstrip(b"\0") or self._packed.read1().lstrip(b"\0")
                if not data and not self._packed.peek():
                    return 0
                self._stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_FOR_XZ)
            elif self._stream.needs_input:
                data = self._packed.read1()
                if not data:
                    raise EOFError("the file ends before what is compressed does")
            found = self._stream.decompress(data, len(buffer))
            buffer[: len(found)] = found
            if found:
                return len(found)


PACKED: dict[str, tuple[bytes, Callable[["BufferedReader[Any]"], Any], Callable[..., Any]]] = {
    ".gz": (b"\x1f\x8b", gzip.open, gzip.open),
    ".xz": (b"\xfd7zXZ\x00", lambda packed: BufferedReader(XzFile(packed)), lzma.open),
    ".bz2": (b"BZh", bz2.open, bz2.open),
}
"""The usual ending of compressed files, the bytes that they begin with, and how they are read and written."""
NO_UTF_8 = re.compile("[\udc80-\udcff]")
"""What Python makes of a byte that is not UTF-8."""
PLAIN = "save it as plain text in UTF-8"
OTHER_FILES = {
    rb"\xff\xfe\0\0|\0\0\xfe\xff": "UTF-32 text; convert it with iconv -f UTF-32 -t UTF-8",
    rb"\xff\xfe|\xfe\xff": "UTF-16 text; convert it with iconv -f UTF-16 -t UTF-8",
    rb"\x28\xb5\x2f\xfd": "a Zstandard file; unpack it first with zstd -d",
    rb"\x04\x22\x4d\x18": "an LZ4 file; unpack it first with lz4 -d",
    rb"7z\xbc\xaf": "a 7-Zip file; unpack it first with 7z x",
    rb"%PDF-": "a PDF file; extract its text first, for example with pdftotext",
    rb"\xd0\xcf\x11\xe0": f"a file of Word or Excel before 2007; {PLAIN}, or a table as CSV",
    rb"PAR1": "a Parquet file; write its column of text as lines first",
    rb"\x89HDF": "an HDF5 file, which is no text",
    rb".{257}ustar": "a tar archive; unpack it first",
    rb"PK\x03\x04.*word/": f"a Word document; {PLAIN}, or convert it with pandoc -t plain",
    rb"PK\x03\x04.*xl/": "a spreadsheet of Excel; save its sheet as CSV in UTF-8",
    rb"PK\x03\x04.*opendocument\.text": f"an OpenDocument text; {PLAIN}, or convert it with pandoc -t plain",
    rb"PK\x03\x04.*opendocument\.spreadsheet": "an OpenDocument spreadsheet; save its sheet as CSV in UTF-8",
    rb"PK\x03\x04.*epub\+zip": "an EPUB; convert it with pandoc -t plain",
    rb"PK\x03\x04": "a zip file; unpack it first",
}
"""The first bytes of files that are given as texts, and what they are."""


class TextFile:
    r"""Read a UTF-8 text file, plain or compressed by gzip, xz or bzip2, which its first bytes say.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "text.gz")
    ...     _ = path.write_bytes(gzip.compress(b"A line.\nAnother line.\n"))
    ...     list(TextFile(path).lines())
    ['A line.\n', 'Another line.\n']

    # Parameters

    path : `Path`
        The file; `-` is the standard input.
    name : `Optional[str]`
        The name of the file in errors, for example the URL that a local copy came from. The default is the path.
    """

    def __init__(self, path: Path, name: Optional[str] = None) -> None:
        self.path = path
        self._is_stdin = str(path) == "-"
        self.name = name or ("standard input" if self._is_stdin else str(path))
        self._raw: Optional[BufferedReader[Any]] = None

    def lines(self) -> Iterator[str]:
        r"""Yield each line with its line end.

        A line ends at `\n` only: `str.splitlines` would also split inside words such as "\u2028". A byte order mark at
        the beginning of a line, as in the output of `cat one two`, is dropped. Raises `ConfigurationError` for a file
        that cannot be read, and for a line that is not UTF-8 text, has a `\r` inside, or is longer than `LONGEST_LINE`.
        """
        for number, encoded in enumerate(self._encoded_lines(), 1):
            line = encoded.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
            expected = "UTF-8 text"
            if "\r" in line.rstrip("\r\n"):
                got = r"line ends of old Macs (\r); convert them with tr '\r' '\n' < FILE > NEW"
            elif len(encoded) > LONGEST_LINE:
                expected, got = f"at most {LONGEST_LINE:,} bytes", "more"
            elif "\0" in line:
                got = "a NUL character; if the text is in UTF-16, convert it with iconv -f UTF-16 -t UTF-8"
            elif not line.isascii() and (other := NO_UTF_8.search(line)):
                got = (
                    f"byte 0x{ord(other[0]) - 0xDC00:02x}; if the text is in another encoding, convert it, for example "
                    "with iconv -f WINDOWS-1252 -t UTF-8"
                )
            else:
                yield line
                continue
            raise ConfigurationError(f"{self.name}, line {number}: expected {expected}, got {got}")

    def share_read(self) -> Optional[float]:
        """Return which fraction of the file on disk has been read, or `None` if its length is unknown."""
        if self._raw is None or self._is_stdin or not self.path.is_file():
            return None
        return 1.0 if self._raw.closed else self._raw.tell() / self.path.stat().st_size

    def _encoded_lines(self) -> Iterator[bytes]:
        """Yield the decompressed lines as bytes."""
        with (
            named_errors(f"{self.name}: cannot be read to its end", OSError, EOFError, zlib.error, lzma.LZMAError),
            nullcontext(cast("BufferedReader[Any]", sys.stdin.buffer))  # stays open
            if self._is_stdin
            else open(self.path, "rb") as self._raw,
        ):
            head = self._raw.peek()
            # An empty file that is named like a compressed one was cut off.
            readers = (
                read
                for ending, (magic, read, _) in PACKED.items()
                if head.startswith(magic) or (not head and self.path.suffix == ending)
            )
            with next(readers, nullcontext)(self._raw) as unpacked:
                head = unpacked.peek(1)
                if others := [kind for form, kind in OTHER_FILES.items() if re.match(form, head, re.DOTALL)]:
                    raise ConfigurationError(f"{self.name}: expected UTF-8 text, got {others[0]}")
                yield from iter(partial(unpacked.readline, LONGEST_LINE + 1), b"")


def read_ahead(lines: Iterable[str], count: int) -> tuple[list[str], Iterator[str]]:
    r"""Return the first lines, at most `count` and not many characters, and an iterator over all lines.

    A line that cannot be read is an error only when the iterator comes to it.

    >>> head, lines = read_ahead(["One\n", "Two\n"], 1)
    >>> head, list(lines)
    (['One\n'], ['One\n', 'Two\n'])
    """
    rest, head, size = iter(lines), list[str](), 0
    try:
        while len(head) < count and size < LONGEST_HEAD and (line := next(rest, None)) is not None:
            head.append(line)
            size += len(line)
    except ConfigurationError as error:
        rest = _raising(error)
    return head, chain(head, rest)


def _raising(error: Exception) -> Iterator[str]:
    """Raise an error when the first line is read."""
    raise error
    yield


def find_shards(*patterns: str) -> list[Path]:
    """Return the files that paths or patterns (`*`, `?`, `[…]`, `**` for any depth) match, each once.

    The files of a pattern are sorted. Raises `ConfigurationError` if no file matches. The error lists what is in the
    deepest folder that exists.
    """
    return list(unique_everseen(chain.from_iterable(map(_matches, patterns)), key=realpath))


def _matches(pattern: str) -> list[Path]:
    pattern = expanduser(pattern)
    if isfile(pattern):  # a file name may contain a bracket
        return [Path(pattern)]
    shards = sorted({Path(path) for path in glob(pattern, recursive=True) if isfile(path)})
    if not shards:
        folder = next(folder for folder in (Path(pattern), *Path(pattern).parents) if isdir(folder))
        listed = some_of(sorted(entry.name for entry in folder.iterdir()))
        hint = f"; its files are '{Path(pattern, '*')}'" if folder == Path(pattern) else ""
        raise ConfigurationError(
            f"'{pattern}' matches no file; the folder '{folder.absolute()}' contains {listed or 'nothing'}{hint}"
        )
    return shards
