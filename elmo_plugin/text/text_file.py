"""Text files, plain or compressed with gzip or xz, read line by line in constant memory."""

import gzip
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from glob import glob
from io import BufferedReader, RawIOBase
from itertools import chain
from lzma import FORMAT_XZ, LZMADecompressor, LZMAError
from os.path import expanduser, isdir, isfile
from pathlib import Path
from typing import Any, Optional, cast

from allennlp.common.checks import ConfigurationError

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
        self._stream = LZMADecompressor(FORMAT_XZ, memlimit=MOST_FOR_XZ)

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
                self._stream = LZMADecompressor(FORMAT_XZ, memlimit=MOST_FOR_XZ)
            elif self._stream.needs_input:
                data = self._packed.read1()
                if not data:
                    raise EOFError("the file ends before what is compressed does")
            found = self._stream.decompress(data, len(buffer))
            buffer[: len(found)] = found
            if found:
                return len(found)


Unpacker = Callable[["BufferedReader[Any]"], AbstractContextManager[Any]]

UNPACKERS: dict[str, Unpacker] = {".gz": gzip.open, ".xz": lambda packed: BufferedReader(XzFile(packed))}
MAGIC: dict[bytes, Unpacker] = {b"\x1f\x8b": UNPACKERS[".gz"], b"\xfd7zXZ\x00": UNPACKERS[".xz"]}
"""The first bytes of compressed files. No UTF-8 text begins with them."""

UTF_16 = "UTF-16 text; convert it with iconv -f UTF-16 -t UTF-8"
OTHER_FILES = {
    b"\xff\xfe": UTF_16,
    b"\xfe\xff": UTF_16,
    b"PK\x03\x04": "a zip file; unpack it first",
    b"BZh91AY&SY": "a bzip2 file; unpack it first",
}
"""The first bytes of files that are given as texts, and what they are."""


class TextFile:
    r"""Read a UTF-8 text file, plain or compressed.

        The first bytes of the file, or else the suffix of its name, determine the compression.

        >>> from os.path import expanduser, isdir, isfile
    from pathlib import Path
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
        that cannot be read, and for a line that is not UTF-8 text or longer than `LONGEST_LINE`.
        """
        for number, encoded in enumerate(self._encoded_lines(), 1):
            if number == 1:
                for magic, kind in OTHER_FILES.items():
                    if encoded.startswith(magic):
                        raise ConfigurationError(f"{self.name}: expected UTF-8 text, got {kind}")
            if len(encoded) > LONGEST_LINE:
                raise ConfigurationError(
                    f"{self.name}, line {number}: expected at most {LONGEST_LINE:,} bytes, got more"
                )
            try:
                line = encoded.decode().removeprefix("\ufeff")
            except UnicodeDecodeError as error:
                got = (
                    f"byte 0x{error.object[error.start]:02x} ({error.reason}); if the text is in another encoding, "
                    "convert it, for example with iconv -f WINDOWS-1252 -t UTF-8"
                )
                raise ConfigurationError(f"{self.name}, line {number}: expected UTF-8 text, got {got}") from error
            if "\0" in line:
                raise ConfigurationError(f"{self.name}, line {number}: expected UTF-8 text, got a NUL character")
            yield line

    def share_read(self) -> Optional[float]:
        """Return which fraction of the file on disk has been read, or `None` if its length is unknown."""
        if self._raw is None or self._is_stdin or not self.path.is_file():
            return None
        return 1.0 if self._raw.closed else self._raw.tell() / self.path.stat().st_size

    def _encoded_lines(self) -> Iterator[bytes]:
        """Yield the decompressed lines as bytes."""
        try:
            with _standard_input() if self._is_stdin else open(self.path, "rb") as self._raw:
                head = self._raw.peek()
                by_suffix = UNPACKERS.get(self.path.suffix, nullcontext)
                unpack = next((unpack for magic, unpack in MAGIC.items() if head.startswith(magic)), by_suffix)
                with unpack(self._raw) as unpacked:
                    yield from iter(partial(unpacked.readline, LONGEST_LINE + 1), b"")
        except (OSError, EOFError, zlib.error, LZMAError) as error:
            raise ConfigurationError(f"{self.name}: cannot be read to its end ({error})") from error


def read_ahead(lines: Iterable[str], count: int) -> tuple[list[str], Iterator[str]]:
    r"""Return the first lines, at most `count` and not many characters, and an iterator over all lines.

    >>> head, lines = read_ahead(["One\n", "Two\n"], 1)
    >>> head, list(lines)
    (['One\n'], ['One\n', 'Two\n'])
    """
    rest, head, size = iter(lines), list[str](), 0
    while len(head) < count and size < LONGEST_HEAD and (line := next(rest, None)) is not None:
        head.append(line)
        size += len(line)
    return head, chain(head, rest)


def find_shards(pattern: str) -> list[Path]:
    """Return the files that a path or a pattern (`*`, `?`, `[…]`, `**` for any depth) matches, sorted.

    Raises `ConfigurationError` if no file matches. The error lists what is in the deepest folder that exists.
    """
    pattern = expanduser(pattern)
    if isfile(pattern):  # a file name may contain a bracket
        return [Path(pattern)]
    shards = sorted({Path(path) for path in glob(pattern, recursive=True) if isfile(path)})
    if not shards:
        folder = next(folder for folder in (Path(pattern), *Path(pattern).parents) if isdir(folder))
        names = sorted(entry.name for entry in folder.iterdir())
        listed = ", ".join(names[:5]) + ", …" * (len(names) > 5)
        hint = f"; its files are '{Path(pattern, '*')}'" if folder == Path(pattern) else ""
        raise ConfigurationError(
            f"'{pattern}' matches no file; the folder '{folder.absolute()}' contains {listed or 'nothing'}{hint}"
        )
    return shards


@contextmanager
def _standard_input() -> Iterator["BufferedReader[Any]"]:
    """Yield a buffered reader of the standard input, and leave the standard input open afterwards."""
    reader: BufferedReader[Any] = BufferedReader(cast(RawIOBase, sys.stdin.buffer))
    try:
        yield reader
    finally:
        reader.detach()
