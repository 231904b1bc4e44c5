"""Files of text, plain or compressed by gzip or xz, read line by line in constant memory."""

import gzip
import lzma
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, Optional, cast

from allennlp.common.checks import ConfigurationError

Unpacker = Callable[..., AbstractContextManager[Any]]

UNPACKERS: dict[str, Unpacker] = {".gz": gzip.open, ".xz": lzma.open}
MAGIC: dict[bytes, Unpacker] = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\x00": lzma.open}
"""What a compressed file begins with, and no UTF-8 text does."""


class TextFile:
    """A UTF-8 text. Its first bytes, or the ending of its name, say whether it is compressed.

    # Parameters

    path : `Path`
        `-` is the standard input.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = "standard input" if str(path) == "-" else str(path)
        self._raw: Optional[BufferedReader[Any]] = None

    def lines(self) -> Iterator[str]:
        """Its lines, each with its end.

        A line ends at `\\n` alone, since `str.splitlines` would end one inside a word such as "\\u2028". Raises
        `ConfigurationError` for a file that cannot be read to its end, and for a line that is no UTF-8 text.
        """
        for number, encoded in enumerate(self._encoded(), 1):
            yield self._decode(encoded, number)

    def share_read(self) -> Optional[float]:
        """How much of the file, as it lies on the disk, is behind the line given last; `None` if it has no length."""
        if self._raw is None or str(self.path) == "-" or not self.path.is_file():
            return None
        return 1.0 if self._raw.closed else self._raw.tell() / self.path.stat().st_size

    def _encoded(self) -> Iterator[bytes]:
        """The lines as bytes, the compression undone."""
        try:
            with _standard_input() if str(self.path) == "-" else open(self.path, "rb") as self._raw:
                head = self._raw.peek()
                by_ending = UNPACKERS.get(self.path.suffix, nullcontext)
                unpack = next((unpack for magic, unpack in MAGIC.items() if head.startswith(magic)), by_ending)
                with unpack(self._raw) as unpacked:
                    yield from unpacked
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise ConfigurationError(f"{self._name}: cannot be read to its end ({error})") from error

    def _decode(self, encoded: bytes, number: int) -> str:
        try:
            line = encoded.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            found = f"byte 0x{error.object[error.start]:02x}"
            wanted = f"UTF-8 ({error.reason})"
            raise ConfigurationError(f"{self._name}, line {number}: found {found}; wanted {wanted}") from error
        if "\0" in line:
            raise ConfigurationError(f"{self._name}, line {number}: found a NUL character; wanted text")
        return line


class OpenText:
    """A text that the caller has opened, or any lines; nobody knows how many will come.

    # Parameters

    lines : `Iterable[str]`
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines

    def lines(self) -> Iterator[str]:
        """Its lines. Raises `ConfigurationError` for one that is no string, as of a file that was opened as bytes."""
        for number, line in enumerate(self._lines, 1):
            if not isinstance(line, str):
                raise ConfigurationError(f"line {number}: expected text, got {repr(line)[:100]}")
            yield line

    def share_read(self) -> None:
        """Return `None`: its length is not known."""


@contextmanager
def _standard_input() -> Iterator["BufferedReader[Any]"]:
    """The standard input, which stays open."""
    reader: BufferedReader[Any] = BufferedReader(cast(RawIOBase, sys.stdin.buffer))
    try:
        yield reader
    finally:
        reader.detach()
