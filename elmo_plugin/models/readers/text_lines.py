"""The lines of a text file, one at a time, and the error that names one."""

from collections.abc import Iterator
from os import PathLike, fspath
from typing import Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path

Location = Union[str, "PathLike[str]"]


def read_lines(file_path: Location) -> Iterator[str]:
    """Lines of a UTF-8 file or URL with their ends, without a byte order mark.

    Raises `ConfigurationError` naming the line that is not UTF-8.
    """
    # Bytes, since a text file also ends a line at a lone \r, and decodes ahead of the line that it gives.
    with open(cached_path(file_path), "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                found = f"byte 0x{error.object[error.start]:02x}"
                raise line_error(file_path, number, found, f"UTF-8 ({error.reason})") from error


def line_error(file_path: Location, line: int, found: str, wanted: str) -> ConfigurationError:
    """An error that says where in a file what was found instead of what."""
    return ConfigurationError(f"{fspath(file_path)}, line {line}: found {found}; wanted {wanted}")


def columns_found(columns: list[str]) -> str:
    """What a row is, for an error: how many columns, and what they hold, long ones cut."""
    cut = ", ".join(repr(column if len(column) <= 30 else column[:29] + "…") for column in columns[:8])
    return f"{len(columns)} column{'s' * (len(columns) != 1)} ({cut}{', …' * (len(columns) > 8)})"


def delimiter_hint(columns: list[str], delimiter: Optional[str]) -> str:
    """Return the end of an error: what else may divide the columns of a row. It is empty if nothing is likely to."""
    candidates = ["\t", ";", "|", ",", " "] if len(columns) == 1 else ["\t"]
    for candidate in candidates:
        if candidate != delimiter and any(candidate in column for column in columns):
            return f"; if {candidate!r} divides the columns, set 'delimiter' to it"
    return ""
