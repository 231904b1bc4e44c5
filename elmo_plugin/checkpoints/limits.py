"""Decompression limits: trained weights hardly compress, so a file that grows a lot when unpacked is malicious."""

import gzip
import zlib
from contextlib import suppress
from gzip import GzipFile
from os import fspath
from pathlib import Path

from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import BiLMOptions

GROWTH = 8
"""The largest factor by which a file may grow: a number has at most eight bytes, and compresses to at least one."""
ALLOWANCE = 2**20
"""The bytes that a file may grow beyond that, because texts and headers compress well."""


def check_unpacked(unpacked: int, archive: Path, name: str) -> None:
    """Raise `ConfigurationError` if content of `unpacked` bytes is too large for its archive; errors call it `name`."""
    most = _most(archive)
    if unpacked > most:
        size = archive.stat().st_size
        raise ConfigurationError(
            f"'{name}': expected at most {most:,} bytes in an archive of {size:,}, got {unpacked:,} or more"
        )


def check_gzip(path: Path, name: str) -> None:
    """Raise `ConfigurationError` if a gzip file grows too much when unpacked. A damaged file may pass."""
    with suppress(OSError, EOFError, zlib.error), gzip.open(path) as content:
        check_unpacked(content.seek(_most(path) + 1), path, name)


def _most(archive: Path) -> int:
    """Return the largest number of bytes that an archive may unpack to."""
    return GROWTH * archive.stat().st_size + ALLOWANCE


def check_numbers(options: BiLMOptions, stored: int, name: str) -> None:
    """Raise `ConfigurationError` if the options ask for more parameters than the file `name` stores bytes."""
    if options.n_parameters > stored:
        raise ConfigurationError(
            f"'{name}': expected weights of at least one byte for each of the {options.n_parameters:,} parameters "
            f"that the options ask for, got {stored:,} bytes"
        )


class LimitedStream:
    """Read the content of an archive up to the decompression limit.

    # Parameters

    stream : `GzipFile`
        The decompressed content.
    archive : `Path`
        The file that holds it.
    """

    def __init__(self, stream: GzipFile, archive: Path) -> None:
        self._stream = stream
        self._archive = archive

    def read(self, size: int) -> bytes:
        """Return the next bytes. Raises `ConfigurationError` beyond the limit."""
        check_unpacked(self.tell() + size, self._archive, fspath(self._archive))
        return self._stream.read(size)

    def seek(self, position: int) -> int:
        """Move to a position. Raises `ConfigurationError` beyond the limit."""
        check_unpacked(position, self._archive, fspath(self._archive))
        return self._stream.seek(position)

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self._stream.tell()
