"""A text as windows of sentences: plain lines, a column of a table, or columns of words such as CoNLL-U."""

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

from elmo_plugin.text import (
    CONLL_TO_EMBED,
    TOKENIZED,
    WHITE_SPACE,
    JustTabsTokenizer,
    Row,
    TableRow,
    TextFile,
    Use,
    line_error,
    look_at,
    rows_of_sentences,
    show_columns,
    split_tokens,
)

CHARACTERS_IN_WINDOW = 2**17
"""The size of a window in characters: some 25,000 tokens, which are sorted by length together."""

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


def read_lines(lines: Iterable[str], name: str, use: Optional[Use] = TOKENIZED) -> Iterator[Row]:
    """Read one sentence per line. Raises `ConfigurationError` for a kind of file that `use` does not take, if given."""
    for line in look_at(lines, name, use)[1] if use else lines:
        yield Row(None, line.rstrip("\r\n"))


def read_conll(lines: Iterable[str], name: str) -> Iterator[Row]:
    r"""Read the words of columns: the sentences, whose tokens are joined by tabs, end at empty lines.

    CoNLL-U is read as ELMoForManyLangs reads its `conll` input: tokens are in the second column, and comments, ranges
    such as 1-2 and empty nodes such as 1.1 are skipped. In other columns, tokens are in the first one.

    >>> [row.text for row in read_conll(["# text = It sank\n", "1\tIt\t_\n", "2\tsank\t_\n", "\n"], "file")]
    ['It\tsank']
    """
    found, lines = look_at(lines, name, CONLL_TO_EMBED)
    place = int(found.text_column or 1) - 1
    table = (line.rstrip("\r\n").split("\t") if "\t" in line else split_tokens(line) for line in lines)
    for rows in rows_of_sentences(TableRow(name, None, number, cells) for number, cells in enumerate(table, 1)):
        words: list[str] = []
        for row in rows:
            if len(row.cells) == len(found.first_row):
                words += [row.cells[place]] if place == 0 or row.cells[0].isdecimal() else []
            elif not row.cells[0].startswith("#"):
                raise row.error(show_columns(found.first_row), show_columns(row.cells))
        if words:
            yield Row(None, "\t".join(words))


def _size(row: Row) -> int:
    """Return the number of characters of a sentence and its line end."""
    return len(row.text) + 1


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
                raise ConfigurationError(
                    f"{path}: expected a text file, or - for standard input, got "
                    f"{'a folder' if path.is_dir() else 'a path that does not exist'}"
                )
        self._files = [TextFile(path) for path in paths]
        self._lines = [] if paths else cast(Iterable[str], text)
        self.tokenizer = tokenizer
        self._read_rows = read_rows
        self._n_read = 0

    def windows(self) -> Iterator[Window]:
        """Yield windows of `CHARACTERS_IN_WINDOW`, or of one sentence that is longer; for an empty text, an empty one.

        At the end of the text they have about half that size or less, so that several processes end together.

        Raises `ConfigurationError` for a file that cannot be read to its end, for a line that is not UTF-8, and for an
        id that is empty or repeated.
        """
        start = 0
        windows = peekable(constrained_batches(self._rows(), CHARACTERS_IN_WINDOW, get_len=_size, strict=False))
        for rows in windows or [()]:
            parts: list[Sequence[Row]] = [rows]
            if len(windows[:2]) < 2:  # this one is the last, or the last but one
                end = [*rows, *chain.from_iterable(windows)]
                number = min(len(end), ceil(2 * sum(map(_size, end)) / CHARACTERS_IN_WINDOW))
                parts = [list(part) for part in divide(max(1, number), end)]
            for part in parts:
                ids = [row.id for row in part if row.id is not None]
                yield Window(start, [row.text for row in part], ids or None, self.tokenizer)
                start += len(part)

    def estimated_sentences(self) -> Optional[int]:
        """Return the number of sentences, estimated by those in the share of the files that was read so far.

        Return `None` if nothing was read yet, or if the size of the text is unknown.
        """
        sizes = [file.path.stat().st_size if file.path.is_file() else 0 for file in self._files]
        read = sum(size * (file.share_read() or 0) for size, file in zip(sizes, self._files, strict=True))
        return round(self._n_read * sum(sizes) / read) if read and all(sizes) else None

    def _rows(self) -> Iterator[Row]:
        self._n_read = 0
        seen: set[str] = set()
        sources = [(file.lines(), str(file.path)) for file in self._files] or [(iter(self._lines), "text")]
        for lines, name in sources:
            for row in self._read_rows(lines, name):
                if row.id is not None:
                    if not row.id or row.id in seen:
                        got = f"{row.id!r} twice" if row.id else "an empty one"
                        raise line_error(name, row.line, "an id of its own for each sentence", got)
                    seen.add(row.id)
                self._n_read += 1
                # Where tabs separate tokens, a tab at either end of a line marks an empty token.
                around = "" if isinstance(self.tokenizer, JustTabsTokenizer) else WHITE_SPACE
                yield row._replace(text=row.text.strip(around))
