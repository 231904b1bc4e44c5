"""How much may come out of a file: trained numbers hardly compress, and what grows a lot was made to do harm."""

from gzip import GzipFile
from os import fspath
from pathlib import Path

from allennlp.common.checks import ConfigurationError

from elmo_plugin.options import BiLMOptions

GROWTH = 8
"""A number takes eight bytes at most, and packed no less than one."""
ALLOWANCE = 2**20
"""Bytes of a file that are not numbers, and may compress as well as they do."""


def most_unpacked(archive: Path) -> int:
    """Bytes that may be made of an archive."""
    return GROWTH * archive.stat().st_size + ALLOWANCE


def check_unpacked(unpacked: int, archive: Path, name: str) -> None:
    """Raise `ConfigurationError`, calling what would be unpacked by `name`, if it is too much for its archive."""
    most = most_unpacked(archive)
    if unpacked > most:
        raise ConfigurationError(
            f"'{name}' would be unpacked to {unpacked:,} bytes or more; wanted at most {most:,} of an archive of "
            f"{archive.stat().st_size:,}"
        )


def check_numbers(options: BiLMOptions, stored: int, name: str) -> None:
    """Raise `ConfigurationError` if options ask for more parameters than the weights of that `name` have bytes."""
    if options.n_parameters > stored:
        raise ConfigurationError(
            f"'{name}' has {stored:,} bytes; wanted one at least for each of the {options.n_parameters:,} parameters "
            "that the options ask for"
        )


class UnpackedStream:
    """An archive's content, read no further than `most_unpacked`.

    # Parameters

    stream : `GzipFile`
        The content.
    archive : `Path`
        Where it comes from.
    """

    def __init__(self, stream: GzipFile, archive: Path) -> None:
        self._stream = stream
        self._archive = archive

    def read(self, size: int) -> bytes:
        """The next bytes. Raises `ConfigurationError` if they would be too many."""
        check_unpacked(self.tell() + size, self._archive, fspath(self._archive))
        return self._stream.read(size)

    def seek(self, place: int) -> int:
        """Go to a place. Raises `ConfigurationError` if it is too far away."""
        check_unpacked(place, self._archive, fspath(self._archive))
        return self._stream.seek(place)

    def tell(self) -> int:
        """The place of the next byte."""
        return self._stream.tell()
