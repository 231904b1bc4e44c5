"""Tables: rows of CSV and TSV files and of JSON lines, the columns that a user names, and errors that name a line."""

import csv
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from more_itertools import peekable, side_effect

from elmo_plugin.common import named_errors, parse_json
from elmo_plugin.text.look import A_TABLE, DELIMITERS, DOCUMENT, JSON_LINES, Use, look_at, show_columns
from elmo_plugin.text.text_file import LONGEST_LINE, LONGEST_SENTENCE, TextFile
from elmo_plugin.text.tokenizer import split_tokens

FilePath = Union[str, "PathLike[str]"]
Column = Union[int, str]
"""A column: its number from 0, or from the end with negative numbers, or its name in the header."""


class Row(NamedTuple):
    """A text, its id if it has one, and its line."""

    id: Optional[str]
    text: str
    line: int = 0


class TableRow(NamedTuple):
    """A row of a file: the name of the file, what separates its cells, its first line from 1, and its cells."""

    file: str
    delimiter: Optional[str]
    line: int
    cells: list[str]

    def find(self, key: str, column: Column) -> int:
        """Return the index of a column in the first row, which has the names.

        Raises `ConfigurationError` if there is no such column, or if two have the name.
        """
        names = [cell.strip() for cell in self.cells]
        if isinstance(column, int) and -len(names) <= column < len(names):
            return column % len(names)
        if isinstance(column, str) and names.count(column.strip()) == 1:
            return names.index(column.strip())
        raise self.error(f"one column '{key}' {column!r}")

    def error(self, expected: str, got: Optional[str] = None) -> ConfigurationError:
        """Return an error that names the file and the line, and by default shows the columns."""
        got = got or show_columns(self.cells) + delimiter_hint(self.cells, self.delimiter)
        return line_error(self.file, self.line, expected, got)


@dataclass(frozen=True)
class TableReader:
    """Reads a column of text, perhaps with ids, from a table or from JSON lines.

    The first lines say which it is. Where they do not, commas separate the cells if the name of the file ends in
    `.csv`, and tabs in any other file.

    # Parameters

    id_column : `Optional[str]`
        The number of a column, counted from 1, or its name, or the key of a JSON object. If either column of a table
        is a name, the first row is a header.
    text_column : `str`

    >>> [row[:2] for row in TableReader("1", "2")(["P1\\tM A L\\n", "P2\\tM K\\n"], "proteins.tsv")]
    [('P1', 'M A L'), ('P2', 'M K')]
    """

    id_column: Optional[str]
    text_column: str

    def __call__(self, lines: Iterable[str], name: str) -> Iterator[Row]:
        """Yield the id and the text of each row. Empty rows are skipped. Raises `ConfigurationError` for others."""
        found, lines = look_at(lines, name, A_TABLE)
        if found.kind == JSON_LINES:
            yield from self._of_objects(lines, name)
            return
        is_csv = name.removesuffix(".gz").removesuffix(".xz").removesuffix(".bz2").lower().endswith(".csv")
        delimiter = found.delimiter or ("," if is_csv else "\t")
        quote_char = found.quote_char or ('"' if delimiter == "," else None)
        read = quoted_rows(lines, name, delimiter, quote_char) if quote_char else plain_rows(lines, delimiter)
        rows = peekable(TableRow(name, delimiter, *row) for row in read if any(row[1]))
        given = {"text_column": self.text_column, "id_column": self.id_column}
        columns = {key: _given(key, column) for key, column in given.items() if column is not None}
        first = rows.peek(TableRow(name, delimiter, 1, []))
        places = {key: first.find(key, column) for key, column in columns.items()}
        if any(isinstance(column, str) for column in columns.values()):
            next(rows)  # the header
        for row in rows:
            if max(places.values()) >= len(row.cells):
                raise row.error(f"a row with the columns {' and '.join(filter(None, given.values()))}")
            id = row.cells[places["id_column"]].strip() if self.id_column else None
            yield Row(id, row.cells[places["text_column"]], row.line)

    def _of_objects(self, lines: Iterable[str], name: str) -> Iterator[Row]:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            with named_errors(f"{name}, line {number}: expected a JSON object, got {line.strip()[:100]!r}", ValueError):
                keys: dict[Any, Any] = parse_json(line)
            id, text = keys.get(self.id_column), keys.get(self.text_column)
            if not isinstance(text, str) or (self.id_column and not isinstance(id, str | int)):
                got = show_columns([*keys]) if keys else "{}"
                names = f"'{self.text_column}'" + f" and an id '{self.id_column}'" * bool(self.id_column)
                raise line_error(name, number, f"an object with the text {names}", got)
            yield Row(None if self.id_column is None else str(id), text, number)


class TextColumn(TextFile):
    """A column of a table, or a key of JSON lines, as a text with a line for each line of a cell."""

    def __init__(self, file: TextFile, column: str) -> None:
        super().__init__(file.path, file.name)
        self._file, self._column = file, column

    def lines(self) -> Iterator[str]:
        """Yield the lines of all cells."""
        for row in TableReader(None, self._column)(self._file.lines(), self.name):
            yield from (f"{line}\n" for line in row.text.split("\n"))


def lines_of(file_path: FilePath, use: Use) -> Iterator[str]:
    """Yield the lines of a UTF-8 file or URL, plain or compressed, with their line ends. See `TextFile.lines`.

    Raises `ConfigurationError` for a kind of file that `use` does not take.
    """
    name = fspath(file_path)
    yield from look_at(TextFile(Path(cached_path(file_path)), name).lines(), name, use)[1]


def names_need_header(columns: Iterable[Optional[Column]], has_header: Optional[bool]) -> bool:
    """Return whether the first row is a header: `has_header`, or true if a column is given by its name.

    Raises `ConfigurationError` for a name with `has_header` false.
    """
    names = [column for column in columns if isinstance(column, str)]
    if names and has_header is False:
        raise ConfigurationError(f"'has_header': expected true for columns with names {names!r}, or numbers of columns")
    return bool(names or has_header)


def quoted_rows(lines: Iterable[str], name: str, delimiter: str, quote_char: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line, from 1, and the cells of each row of a CSV file (RFC 4180). A blank line has no cells.

    Blanks before a field are skipped: otherwise a quote after a blank would be text, and the delimiters in the quoted
    field would separate columns.
    """
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))  # of the whole process; Python's own is 131,072
    last = deque([""], maxlen=1)
    # `strict`, because otherwise a quote that is never closed swallows the rest of the file.
    reader = csv.reader(
        side_effect(last.append, lines),
        delimiter=delimiter,
        quotechar=quote_char,
        strict=True,
        skipinitialspace=delimiter != " ",
    )
    number = 1
    try:
        for cells in reader:
            yield number, [] if last[0].isspace() else cells
            number = reader.line_num + 1
    except csv.Error as error:
        expected = f"fields that are quoted as a whole with {quote_char}, or 'quote_char' null if quotes are text"
        raise line_error(name, number, expected, f"a row that is not CSV ({error})") from error


def plain_rows(
    lines: Iterable[str], delimiter: Optional[str], max_splits: Optional[int] = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line, from 1, and its cells. A blank line has none.

    It is split at most `max_splits` times. Without a delimiter, white space separates cells.
    """
    for number, line in enumerate(lines, 1):
        if delimiter is None:
            yield number, split_tokens(line)
        else:
            yield number, line.rstrip("\r\n").split(delimiter, max_splits or -1) if line.strip() else []


def rows_of_sentences(rows: Iterable[TableRow]) -> Iterator[list[TableRow]]:
    """Yield the rows of each sentence of a file with a word per line.

    It ends at a blank line, at a row of empty cells and at a line that begins a document. Raises `ConfigurationError`
    if it has more characters than `LONGEST_SENTENCE`.
    """
    block: list[TableRow] = []
    size = 0
    for row in chain(rows, [TableRow("", None, 0, [])]):
        text = "".join(row.cells)
        # The line that begins a document has spaces between its columns, whatever the delimiter.
        if not text.strip() or (DOCUMENT in text and DOCUMENT in " ".join(row.cells[:2]).split()[:2]):
            if block:
                yield block
            block, size = [], 0
            continue
        block.append(row)
        size += len(text)
        if size > LONGEST_SENTENCE:
            raise row.error("a blank line after each sentence", f"none in {size:,} characters")


def find_column(
    name: FilePath, line: int, key: str, column: Column, first_row: list[str], delimiter: Optional[str]
) -> int:
    """Return the index of a column in the first row. See `TableRow.find`."""
    return TableRow(fspath(name), delimiter, line, first_row).find(key, column)


def _given(key: str, column: str) -> Column:
    """Return a column that a user names on the command line, where the first one is 1."""
    if column == "0":
        raise ConfigurationError(f"'{key}': expected a column, counted from 1, or its name, got '0'")
    return int(column) - 1 if column.isdecimal() else column


def line_error(name: FilePath, line: int, expected: str, got: str) -> ConfigurationError:
    """Return an error that names the file and the line."""
    return ConfigurationError(f"{fspath(name)}, line {line}: expected {expected}, got {got}")


def delimiter_hint(columns: list[str], delimiter: Optional[str]) -> str:
    """Return a hint, for the end of an error, to use another delimiter; an empty string if none is likely."""
    candidates = [*DELIMITERS, " "] if len(columns) == 1 else ["\t"]
    likely = (each for each in candidates if each != delimiter and any(each in column for column in columns))
    return next((f"; if {each!r} separates the columns, set 'delimiter' to it" for each in likely), "")
