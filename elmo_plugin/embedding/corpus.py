"""A text as windows of sentences: plain lines, a table with ids, or CoNLL-U."""

import csv
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union, cast

from allennlp.common.checks import ConfigurationError
from allennlp.data import Tokenizer
from more_itertools import constrained_batches, divide, peekable

from elmo_plugin.text import LONGEST_SENTENCE, WHITE_SPACE, JustTabsTokenizer, TextFile, read_ahead

CHARACTERS_IN_WINDOW = 2**17
"""The size of a window in characters: some 25,000 tokens, which are sorted by length together."""

Row = tuple[Optional[str], str]
"""The id of a sentence, if it has one, and its text."""
ReadRows = Callable[[Iterable[str], str], Iterator[Row]]
"""A function from the lines of a file, and the name of the file for errors, to its sentences."""


class Sentence(NamedTuple):
    """A text and its tokens. The text has no line end and, unless split at tabs, no ASCII white space around it."""

    text: str
    tokens: list[str]


@dataclass(frozen=True)
class Window:
    """Consecutive sentences; `start` is the number of the first one, counted from 0. Tokenized when first needed."""

    start: int
    texts: Sequence[str]
    ids: Optional[Sequence[str]]
    tokenizer: Tokenizer

    @cached_property
    def sentences(self) -> list[Sentence]:
        """Return the texts with their tokens."""
        return [Sentence(text, [token.ensure_text() for token in self.tokenizer.tokenize(text)]) for text in self.texts]

    @property
    def keys(self) -> list[str]:
        """Return the name of each sentence in an output: its id, or else its number, counted from 0."""
        return list(map(str, self.ids or range(self.start, self.start + len(self.texts))))

    def name(self, made_with: Mapping[str, Any]) -> str:
        """Return a name that identifies the window's texts, its ids and what its vectors are made with.

        It sorts by `start`.
        """
        digest = hashlib.blake2b(json.dumps([self.ids, self.texts, made_with]).encode(), digest_size=8)
        return f"{self.start:012}-{digest.hexdigest()}"


def read_lines(lines: Iterable[str], name: str) -> Iterator[Row]:
    """Read one sentence per line. Raises `ConfigurationError` for the columns of CoNLL-U."""
    head, lines = read_ahead(lines, 20)
    content = [line for line in head if line.strip() and not line.startswith("#")][:2]
    columns = {line.count("\t") for line in content}
    if content and content[0].startswith(("1\t", "1-2\t")) and len(columns) == 1 and columns.pop() >= 3:
        raise ConfigurationError(
            f"{name}: expected one sentence per line, got numbered rows of columns; --split conll reads CoNLL-U, and "
            "--id-column with --text-column reads a table"
        )
    for line in lines:
        yield None, line.rstrip("\r\n")


def read_conll(lines: Iterable[str], name: str) -> Iterator[Row]:
    r"""Read CoNLL-U as ELMoForManyLangs reads its `conll` input: the tokens of a sentence, joined by tabs.

    Tokens are in the second column, sentences end at empty lines, and comments, ranges such as 1-2 and empty nodes such
    as 1.1 are skipped.

    >>> list(read_conll(["# text = It sank\n", "1\tIt\t_\n", "2\tsank\t_\n", "\n"], "file"))
    [(None, 'It\tsank')]
    """
    words: list[str] = []
    size = 0
    for number, line in enumerate(chain(lines, [""]), 1):
        index, *fields = line.rstrip("\r\n").split("\t")
        if not line.strip():
            if words:
                yield None, "\t".join(words)
            words, size = [], 0
        elif not line.startswith("#"):
            if not fields:
                raise ConfigurationError(
                    f"{name}, line {number}: expected columns separated by tabs, got {line[:100]!r}"
                )
            words += [fields[0]] if index.isdecimal() else []
            size += len(line)
            if size > LONGEST_SENTENCE:
                raise ConfigurationError(
                    f"{name}, line {number}: expected a blank line after each sentence, got none in {size:,} characters"
                )


@dataclass(frozen=True)
class TableReader:
    """Reads the sentences of a table: columns separated by tabs, or by commas if the name of the file ends in `.csv`.

    # Parameters

    id_column, text_column : `str`
        The number of a column, counted from 1, or its name. If either is a name, the first row is a header.

    >>> list(TableReader("1", "2")(["P1\\tM A L\\n", "P2\\tM K\\n"], "proteins.tsv"))
    [('P1', 'M A L'), ('P2', 'M K')]
    """

    id_column: str
    text_column: str

    def __call__(self, lines: Iterable[str], name: str) -> Iterator[Row]:
        """Yield the id and the text of each row. Empty rows are skipped."""
        rows: Iterator[list[str]] = (line.rstrip("\r\n").split("\t") for line in lines)
        if name.removesuffix(".gz").removesuffix(".xz").lower().endswith(".csv"):
            rows = csv.reader(lines, strict=True, skipinitialspace=True)
        columns = [self.id_column, self.text_column]
        if "0" in columns:
            raise ConfigurationError("expected the number of a column, counted from 1, or its name, got '0'")
        if not all(column.isdecimal() for column in columns):
            header = next(rows, [])
            for column in columns:
                if not column.isdecimal() and header.count(column) != 1:
                    raise ConfigurationError(f"{name}: expected one column {column!r}, got the columns {header}")
            columns = [column if column.isdecimal() else str(header.index(column) + 1) for column in columns]
        id_index, text_index = (int(column) - 1 for column in columns)
        row: list[str] = []
        try:
            for row in rows:
                if any(row):
                    yield row[id_index].strip(), row[text_index]
        except (IndexError, csv.Error) as error:
            expected = f"a row with the columns {' and '.join(columns)}"
            raise ConfigurationError(f"{name}: expected {expected}, got {row} ({error})"[:500]) from error


def _size(row: Row) -> int:
    """Return the number of characters of a sentence and its line end."""
    return len(row[1]) + 1


class Corpus:
    """A text, plain or compressed by gzip or xz.

    # Parameters

    text : `Path`, `Sequence[Path]` or `Iterable[str]`
        A file or several, where `-` is the standard input; or lines, such as an open file.
    tokenizer : `Tokenizer`
    read_rows : `ReadRows`
        `read_lines`, `read_conll` or a `TableReader`. Ids must differ; they are kept in memory to check that.

    Raises `ConfigurationError` for a path that is not a file, and for a path given as a string.

    >>> from allennlp.data.tokenizers import WhitespaceTokenizer
    >>> (window,) = Corpus(["Two words", "One"], WhitespaceTokenizer()).windows()
    >>> [sentence.tokens for sentence in window.sentences]
    [['Two', 'words'], ['One']]
    """

    def __init__(
        self,
        text: Union[Path, Sequence[Path], Iterable[str]],
        tokenizer: Tokenizer,
        read_rows: ReadRows = read_lines,
    ) -> None:
        if isinstance(text, str):  # an iterable of its characters
            raise ConfigurationError(f"expected a `Path` or lines, got the string {text[:100]!r}")
        parts = [text] if isinstance(text, Path) else text
        paths = [part for part in parts if isinstance(part, Path)] if isinstance(parts, Sequence) else []
        for path in paths:
            if str(path) != "-" and (path.is_dir() or not path.exists()):
                found = "a folder" if path.is_dir() else "a path that does not exist"
                raise ConfigurationError(f"{path}: expected a text file, or - for standard input, got {found}")
        self._files = [TextFile(path) for path in paths]
        self._lines = [] if paths else cast(Iterable[str], text)
        self.tokenizer = tokenizer
        self._read_rows = read_rows
        self._n_read = 0

    @property
    def has_only_files(self) -> bool:
        """Return whether the text consists of files, which several processes can read."""
        return bool(self._files) and all(str(file.path) != "-" for file in self._files)

    def windows(self) -> Iterator[Window]:
        """Yield windows of `CHARACTERS_IN_WINDOW`, or of one sentence that is longer; for an empty text, an empty one.

        At the end of the text they have about half that size or less, so that several processes end together.

        Raises `ConfigurationError` for a file that cannot be read to its end, for a line that is not UTF-8, and for an
        id that is empty or repeated.
        """
        start = 0
        windows = peekable(constrained_batches(self._rows(), CHARACTERS_IN_WINDOW, get_len=_size, strict=False))
        for rows in windows:
            parts: list[Sequence[Row]] = [rows]
            if len(windows[:2]) < 2:  # this one is the last, or the last but one
                end = [*rows, *chain.from_iterable(windows)]
                number = ceil(2 * sum(map(_size, end)) / CHARACTERS_IN_WINDOW)
                parts = [list(part) for part in divide(number, end)]
            for part in filter(None, parts):
                yield self._window(start, part)
                start += len(part)
        if start == 0:
            yield self._window(start, [])

    def share_read(self) -> Optional[float]:
        """Return the share of the files that was read so far, from 0 to 1, or `None` if their size is unknown."""
        sizes = [file.path.stat().st_size if file.path.is_file() else 0 for file in self._files]
        if not self.has_only_files or not all(sizes):
            return None
        return sum(size * (file.share_read() or 0) for size, file in zip(sizes, self._files, strict=True)) / sum(sizes)

    def estimated_sentences(self) -> Optional[int]:
        """Return the number of sentences, estimated by those read so far, or `None` if `share_read` is unknown or 0."""
        share = self.share_read()
        return round(self._n_read / share) if share else None

    def _rows(self) -> Iterator[Row]:
        self._n_read = 0
        seen: set[str] = set()
        sources = [(file.lines(), str(file.path)) for file in self._files] or [(iter(self._lines), "text")]
        for lines, name in sources:
            for id, text in self._read_rows(lines, name):
                if id is not None and (not id or id in seen):
                    problem = f"{id!r} twice" if id else "an empty one"
                    raise ConfigurationError(f"{name}: expected an id of its own for each sentence, got {problem}")
                seen |= {id} if id is not None else set()
                self._n_read += 1
                # Where tabs separate tokens, a tab at either end of a line marks an empty token.
                yield id, text if isinstance(self.tokenizer, JustTabsTokenizer) else text.strip(WHITE_SPACE)

    def _window(self, start: int, rows: Sequence[Row]) -> Window:
        ids = [id for id, _ in rows if id is not None]
        return Window(start, [text for _, text in rows], ids or None, self.tokenizer)
