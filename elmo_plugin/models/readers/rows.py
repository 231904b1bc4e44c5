"""Lines and columns of data files, and the errors that name a line."""

import csv
from collections.abc import Iterable, Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path

from elmo_plugin.text import LONGEST_LINE, TextFile

FilePath = Union[str, "PathLike[str]"]
Rows = Iterator[tuple[int, list[str]]]
"""Line numbers, from 1, with the columns of a row."""
Column = Union[int, str]
"""A column: its number from 0, or from the end with negative numbers, or its name in the header."""


def lines_of(file_path: FilePath) -> Iterator[str]:
    """Yield the lines of a UTF-8 file or URL, plain, .gz or .xz, with their line ends. See `TextFile.lines`."""
    return TextFile(Path(cached_path(file_path)), name=fspath(file_path)).lines()


def quoted_rows(file_path: FilePath, delimiter: str, quote_char: str) -> Rows:
    """Yield each row of a CSV file (RFC 4180) that is not blank, with the number of its first line.

    Blanks before a field are skipped: otherwise a quote after a blank would be text, and the delimiters in the quoted
    field would separate columns.
    """
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))  # of the whole process; Python's own is 131,072
    last = ""

    def lines() -> Iterator[str]:
        nonlocal last
        for line in lines_of(file_path):
            last = line
            yield line

    # `strict`, because otherwise a quote that is never closed swallows the rest of the file.
    reader = csv.reader(
        lines(), delimiter=delimiter, quotechar=quote_char, strict=True, skipinitialspace=delimiter != " "
    )
    number = 1
    try:
        for row in reader:
            if row and not (len(row) == 1 and last.isspace()):
                yield number, row
            number = reader.line_num + 1
    except csv.Error as error:
        expected = f"fields that are quoted as a whole with {quote_char}, or 'quote_char' null if quotes are text"
        raise line_error(file_path, number, expected, f"a row that is not CSV ({error})") from error


def plain_rows(file_path: FilePath, delimiter: str, max_splits: Optional[int]) -> Rows:
    """Yield each line that is not blank, split at most `max_splits` times, with its number."""
    for number, line in enumerate(lines_of(file_path), 1):
        if line.strip():
            yield number, line.rstrip("\r\n").split(delimiter, -1 if max_splits is None else max_splits)


def find_column(
    file_path: FilePath, line: int, key: str, column: Column, first_row: list[str], delimiter: Optional[str]
) -> int:
    """Return the index of a column in the first row, which has the names.

    Raises `ConfigurationError` if there is no such column, or if two have the name.
    """
    names = [name.strip() for name in first_row]
    if isinstance(column, int) and -len(names) <= column < len(names):
        return column % len(names)
    if isinstance(column, str) and names.count(column.strip()) == 1:
        return names.index(column.strip())
    got = show_columns(first_row) + delimiter_hint(first_row, delimiter)
    raise line_error(file_path, line, f"one column '{key}' {column!r}", got)


def names_need_header(columns: Iterable[Optional[Column]], has_header: Optional[bool]) -> bool:
    """Return whether the first row is a header: `has_header`, or true if a column is given by its name.

    Raises `ConfigurationError` for a name with `has_header` false.
    """
    names = [column for column in columns if isinstance(column, str)]
    if names and has_header is False:
        raise ConfigurationError(f"'has_header': expected true for columns with names {names!r}, or numbers of columns")
    return bool(names or has_header)


def line_error(file_path: FilePath, line: int, expected: str, got: str) -> ConfigurationError:
    """Return an error that names the file and the line."""
    return ConfigurationError(f"{fspath(file_path)}, line {line}: expected {expected}, got {got}")


def show_columns(columns: list[str]) -> str:
    """Return the number and the content of columns, shortened, for an error."""
    cut = ", ".join(repr(column if len(column) <= 30 else column[:29] + "…") for column in columns[:8])
    return f"{len(columns)} column{'s' * (len(columns) != 1)} ({cut}{', …' * (len(columns) > 8)})"


def delimiter_hint(columns: list[str], delimiter: Optional[str]) -> str:
    """Return a hint, for the end of an error, to use another delimiter; an empty string if none is likely."""
    candidates = ["\t", ";", "|", ",", " "] if len(columns) == 1 else ["\t"]
    for candidate in candidates:
        if candidate != delimiter and any(candidate in column for column in columns):
            return f"; if {candidate!r} separates the columns, set 'delimiter' to it"
    return ""
