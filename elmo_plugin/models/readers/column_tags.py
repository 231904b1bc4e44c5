"""A reader of tagged sentences with one token per line: CoNLL-2000, CoNLL-2003, WNUT-17, CoNLL-U and similar."""

import csv
import logging
import re
from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from os import fspath
from typing import Any, NamedTuple, Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Field, Instance, Token, TokenIndexer
from allennlp.data.fields import MetadataField, SequenceLabelField, TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_plugin.common import at_least
from elmo_plugin.models.spans import OTHER_NAMES, SCHEMES, TARGETS, convert_tags, first_invalid_tag
from elmo_plugin.text import (
    DOCUMENT,
    LONGEST_SENTENCE,
    TAGGED_WORDS,
    Column,
    FilePath,
    as_tokens,
    delimiter_hint,
    find_column,
    line_error,
    lines_of,
    names_need_header,
    show_columns,
    split_tokens,
)

logger = logging.getLogger(__name__)

# CoNLL-U, "Words, Tokens and Empty Nodes": 1 is a word, 1-2 a multiword range, 8.1 an empty node.
WORD_ID = re.compile(r"[0-9]+")
OTHER_ID = re.compile(r"[0-9]+[-.][0-9]+")


class TaggedToken(NamedTuple):
    """A token and its tag, with the number and all columns of their line."""

    line: int
    columns: list[str]
    token: str
    tag: str


class Line(NamedTuple):
    """A line of a sentence, split into columns."""

    number: int
    text: str
    columns: list[str]


class TokenColumns(NamedTuple):
    """The number of columns in the row at `line`, and the indices of the token's and the tag's."""

    line: int
    width: int
    token: int
    tag: int


@DatasetReader.register("column_tags")
class ColumnTagsReader(DatasetReader):
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
        at_least(0, max_instances=max_instances)
        super().__init__(
            max_instances=max_instances,
            manual_distributed_sharding=True,
            manual_multiprocess_sharding=True,
            serialization_dir=serialization_dir,
        )
        if delimiter == "":
            raise ConfigurationError("'delimiter': expected one character or more, or null for white space, got ''")
        if quote_char is not None and (len(quote_char) != 1 or len(delimiter or "") != 1):
            got = f"{delimiter!r} and {quote_char!r}"
            raise ConfigurationError(f"'delimiter' and 'quote_char': expected one character each, got {got}")
        token_default, tag_default = (1, 3) if conllu else (0, -1)
        self._token_column = token_default if token_column is None else token_column
        self._tag_column = tag_default if tag_column is None else tag_column
        self._delimiter = "\t" if conllu and delimiter is None else delimiter
        self._quote_char = quote_char
        self._conllu = bool(conllu)
        self._has_header = names_need_header([token_column, tag_column], has_header)
        self._coding_scheme = _scheme("coding_scheme", coding_scheme, SCHEMES)
        self._target_scheme = _scheme("convert_to_coding_scheme", convert_to_coding_scheme, TARGETS)
        if self._target_scheme and not self._coding_scheme:
            raise ConfigurationError(
                f"'coding_scheme': expected the scheme of the file, one of {', '.join(SCHEMES)}, to convert to "
                f"'convert_to_coding_scheme' {convert_to_coding_scheme}, got null"
            )
        self._token_indexers = token_indexers or {"tokens": SingleIdTokenIndexer()}
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

    def apply_token_indexers(self, instance: Instance) -> None:
        """Set the token indexers, which AllenNLP does in the process that needs them."""
        instance["tokens"].token_indexers = self._token_indexers  # type: ignore[attr-defined]

    def _read(self, file_path: FilePath) -> Iterator[Instance]:
        logger.info("Reading tagged sentences from %s", file_path)
        for sentence in self.shard_iterable(self.sentences(file_path)):
            self._check_tags(file_path, sentence)
            yield self.text_to_instance([row.token for row in sentence], [row.tag for row in sentence])

    def sentences(self, file_path: FilePath) -> Iterator[list[TaggedToken]]:
        """Yield each sentence. Every worker reads them all, so every worker reports what is wrong with the file."""
        layout: Optional[TokenColumns] = None
        places = self._token_column, self._tag_column
        may_differ = not self._conllu and all(isinstance(place, int) and place >= 0 for place in places)
        is_empty = True
        comments = 0
        for lines in self._blocks(file_path):
            rows = self._without_comments(file_path, lines, layout)
            comments += len(lines) - len(rows)
            if not rows:
                continue
            is_header = layout is None and self._has_header
            if layout is None or may_differ:
                layout = self._layout(file_path, rows[0])
            sentence = [token for row in rows[is_header:] for token in self._tagged_tokens(file_path, row, layout)]
            if sentence:
                is_empty = False
                yield sentence
        if is_empty:
            raise ConfigurationError(f"{fspath(file_path)}: expected sentences, one token per line, got none")
        if comments:
            logger.info("%s: %d comments are left out", fspath(file_path), comments)

    def _blocks(self, file_path: FilePath) -> Iterator[list[Line]]:
        """Yield the lines of each sentence, split into columns.

        It ends at a blank line, at a row of empty cells and at a line that begins a document.
        """
        block: list[Line] = []
        size = 0
        for number, line in enumerate(lines_of(file_path, TAGGED_WORDS), 1):
            text = line.rstrip("\r\n")
            columns = self._split(file_path, number, text)
            # The line that begins a document has spaces between its columns, whatever the delimiter.
            if not any(map(str.strip, columns)) or (DOCUMENT in text and DOCUMENT in split_tokens(text)[:2]):
                if block:
                    yield block
                block, size = [], 0
            else:
                size += len(line)
                if size > LONGEST_SENTENCE:
                    raise line_error(
                        file_path, number, "a blank line after each sentence", f"none in {size:,} characters"
                    )
                block.append(Line(number, text, columns))
        if block:
            yield block

    def _split(self, file_path: FilePath, number: int, text: str) -> list[str]:
        """Return the columns of a line."""
        if self._delimiter is None:
            return split_tokens(text)
        if self._quote_char is None:
            return text.split(self._delimiter)
        try:
            cells = csv.reader([text], delimiter=self._delimiter, quotechar=self._quote_char, strict=True)
            return next(cells, [])
        except csv.Error as error:
            expected = f"cells that are quoted as a whole with {self._quote_char}, or 'quote_char' null"
            raise line_error(file_path, number, expected, f"a row that is not CSV ({error})") from error

    def _without_comments(self, file_path: FilePath, lines: list[Line], layout: Optional[TokenColumns]) -> list[Line]:
        """Return the lines of a sentence without the comments before it, or with `conllu` without any comments."""
        if not lines[0].text.startswith("#"):
            return lines
        if self._conllu:
            return [line for line in lines if not line.text.startswith("#")]
        row = next((line for line in lines if not line.text.startswith("#")), None)
        if row is not None:
            width = len(row.columns)
        elif layout is not None:
            width = layout.width
        else:  # all lines up to here begin with #, so the width is that of the first one that does not
            blocks = (line for block in self._blocks(file_path) for line in block)
            width = len(next((line for line in blocks if not line.text.startswith("#")), lines[-1]).columns)
        place = self._tag_column if layout is None else layout.tag
        for index, (_, text, columns) in enumerate(lines):
            # Empty if there is no such column, and before the header, which says where a named column is.
            tag = "".join(columns[place:][:1]) if isinstance(place, int) else ""
            is_row = len(columns) == width and "=" not in columns and "=" not in tag
            if is_row or not text.startswith("#"):
                return lines[index:]
        return []

    def _layout(self, file_path: FilePath, row: Line) -> TokenColumns:
        """Return where the columns are in a row, which is the first one if columns have names."""
        number, _, columns = row
        keys = {"token_column": self._token_column, "tag_column": self._tag_column}
        token, tag = (
            find_column(file_path, number, key, column, columns, self._delimiter) for key, column in keys.items()
        )
        if token == tag:  # in a file split at the wrong delimiter, each token would be its own tag
            got = show_columns(columns) + delimiter_hint(columns, self._delimiter)
            names = " and ".join(f"'{key}' {column!r}" for key, column in keys.items())
            delimiter = "white space" if self._delimiter is None else repr(self._delimiter)
            raise line_error(file_path, number, f"the two columns {names}, separated by {delimiter}", got)
        return TokenColumns(number, len(columns), token, tag)

    def _tagged_tokens(self, file_path: FilePath, row: Line, layout: TokenColumns) -> Iterator[TaggedToken]:
        """Yield the token of a row and its tag, or nothing for a row of CoNLL-U that is not a word."""
        number, _, columns = row
        if len(columns) != layout.width:
            expected = f"{layout.width} columns, as in line {layout.line}"
            raise line_error(
                file_path, number, expected, show_columns(columns) + delimiter_hint(columns, self._delimiter)
            )
        if self._conllu and OTHER_ID.fullmatch(columns[0]):
            return
        if self._conllu and not WORD_ID.fullmatch(columns[0]):
            expected = "an id of CoNLL-U (1, 1-2 or 8.1) in the first column, or 'conllu' false for other formats"
            raise line_error(file_path, number, expected, repr(columns[0]))
        token, tag = columns[layout.token], columns[layout.tag].strip()
        if not token or not tag:
            raise line_error(file_path, number, "a token and a tag that are not empty", show_columns(columns))
        yield TaggedToken(number, columns, token, tag)

    def _check_tags(self, file_path: FilePath, sentence: list[TaggedToken]) -> None:
        scheme = self._coding_scheme
        if scheme is None:
            return
        tags = [row.tag for row in sentence]
        index = first_invalid_tag(tags, scheme)
        if index is None:
            return
        before = repr(tags[index - 1]) if index > 0 else "the start"
        after = repr(tags[index + 1]) if index + 1 < len(tags) else "the end of the sentence"
        got = f"{tags[index]!r} between {before} and {after}"
        fitting = [other for other in SCHEMES if first_invalid_tag(tags, other) is None]
        inside, outside = tags[index][2:], tags[index - 1][2:] if index else ""
        if inside != outside and get_close_matches(inside, [outside]):
            got += f"; did you mean {tags[index][:2] + outside!r}?"
        elif fitting:  # BIOES and BMES differ in the middle of a span alone
            fitting = [other for other in fitting if SCHEMES[other][::3] == SCHEMES[fitting[0]][::3]]
            got += f"; 'coding_scheme' {' or '.join(fitting)} allows it"
        elif sentence[index].line == 1:
            got += "; if it is a header, set 'has_header' true"
        prefixes = ", ".join("O" if prefix == "O" else f"{prefix}-…" for prefix in SCHEMES[scheme].letters)
        expected = f"a tag that 'coding_scheme' {scheme} ({prefixes}) allows there"
        raise line_error(file_path, sentence[index].line, expected, got)


def _scheme(key: str, value: Optional[str], choices: Collection[str]) -> Optional[str]:
    """Return our name of a coding scheme. Raises `ConfigurationError` for one that is not a choice."""
    name = OTHER_NAMES.get(value, value) if value else value
    if name is not None and name not in choices:
        raise ConfigurationError(f"'{key}': expected null or one of {', '.join(choices)}, got {value!r}")
    return name
