"""The lines of data files, and whether their first row has the names of columns."""

from collections.abc import Iterable, Iterator
from os import fspath
from pathlib import Path
from typing import Optional

from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path

from elmo_plugin.text import Column, FilePath, TextFile, Use, look_at


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
