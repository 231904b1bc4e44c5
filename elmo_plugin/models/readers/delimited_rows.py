"""The rows of delimited text files: CSV, and lines that are only split."""

import csv
from collections.abc import Iterator
from typing import Optional

from allennlp.common.checks import ConfigurationError

from elmo_plugin.models.readers.text_lines import Location, line_error, read_lines

# Python refuses fields of more than 131,072 characters. The limit is one of the whole process: it is only ever raised.
FIELD_SIZE_LIMIT = 2**31 - 1

Rows = Iterator[tuple[int, list[str]]]


def quoted_rows(file_path: Location, delimiter: str, quote_char: str) -> Rows:
    """The columns of each row of a CSV file (RFC 4180) that is not blank, with the number of its first line."""
    csv.field_size_limit(max(csv.field_size_limit(), FIELD_SIZE_LIMIT))
    # Strict: else a quote that does not end takes the rest of the file for one field.
    reader = csv.reader(read_lines(file_path), delimiter=delimiter, quotechar=quote_char, strict=True)
    line = 1
    try:
        for row in reader:
            if row and not (len(row) == 1 and row[0].isspace()):
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        wanted = f"fields quoted whole with {quote_char}, or 'quote_char' null where quotes are text"
        raise line_error(file_path, line, f"a row that is not CSV ({error})", wanted) from error


def plain_rows(file_path: Location, delimiter: str, max_splits: Optional[int]) -> Rows:
    """The columns of each line that is not blank, with its number; the last one is the rest after `max_splits`."""
    for number, line in enumerate(read_lines(file_path), 1):
        if line.strip():
            yield number, line.rstrip("\r\n").split(delimiter, -1 if max_splits is None else max_splits)


def check_format(delimiter: str, quote_char: Optional[str], max_splits: Optional[int]) -> None:
    """Raise `ConfigurationError` for what `quoted_rows`, or without `quote_char` `plain_rows`, cannot read by."""
    given = f"'delimiter' is {delimiter!r} and 'quote_char' {quote_char!r}"
    if quote_char is None:
        if not delimiter:
            raise ConfigurationError(f"{given}; wanted at least one character that delimits")
        return
    if max_splits is not None:
        raise ConfigurationError(f"'max_splits' is {max_splits} and 'quote_char' {quote_char!r}; wanted it null")
    try:
        csv.reader([], delimiter=delimiter, quotechar=quote_char)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{given}; wanted one character each: {error}") from error
