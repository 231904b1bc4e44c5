"""A reader of tagged sentences with one token per line: CoNLL-2000, CoNLL-2003, WNUT-17, CoNLL-U and similar."""

import logging
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from os import fspath
from typing import Any, NamedTuple, Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Field, Instance, Token, TokenIndexer
from allennlp.data.fields import MetadataField, SequenceLabelField, TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_plugin.common import at_least
from elmo_plugin.models.readers.rows import Location, delimiter_hint, line_error, read_lines, show_columns
from elmo_plugin.models.spans import PREFIXES, TARGETS, convert_tags, first_invalid_tag
from elmo_plugin.text import as_tokens

logger = logging.getLogger(__name__)

# `str.split` would also split at no-break spaces and the like, which tokens may contain.
BLANKS = re.compile(r"[ \t]+")
# CoNLL-U, "Words, Tokens and Empty Nodes": 1 is a word, 1-2 a multiword range, 8.1 an empty node.
WORD_ID = re.compile(r"[0-9]+")
OTHER_ID = re.compile(r"[0-9]+[-.][0-9]+")
# A CoNLL-U file begins with a comment that has one of the format's own keys, or with a row of an id and nine columns.
CONLLU_COMMENT = re.compile(r"# *(?:newdoc|newpar|(?:sent_id|text|global\.columns) *=)")
CONLLU_ROW = re.compile(r"(?:1|1-[0-9]+)(?:\t[^\t]+){9}$")


class Row(NamedTuple):
    """A token and its tag, with their line number."""

    line: int
    token: str
    tag: str


@DatasetReader.register("column_tags")
class ColumnTagsReader(DatasetReader):
    """Read tagged sentences from a file with one token per line, its tag in another column, and blank lines between.

    Supported formats: CoNLL-2000 (https://www.clips.uantwerpen.be/conll2000/chunking/); CoNLL-2003
    (https://www.clips.uantwerpen.be/conll2003/ner/), where `-DOCSTART-` lines also end a sentence; WNUT-17
    (https://noisy-text.github.io/2017/emerging-rare-entities.html) with `"delimiter": "\\t"`; CoNLL-U
    (https://universaldependencies.org/format.html) with `"conllu": true`. A file may be compressed (.gz or .xz), and
    may have Windows line ends, a byte order mark, and no line end at its end.

    Each `Instance` has the fields `tokens` (`TextField`), `tags` (`SequenceLabelField`, if there are tags) and
    `metadata` with the key `words`. A sentence without tokens gets one empty token, because no RNN reads a sequence of
    length 0.

    Raises `ConfigurationError` naming the file and the line for a line that is not UTF-8 text, a row with more or fewer
    columns than the first row, an empty token or tag, and a tag that `coding_scheme` does not allow there; and for a
    file without a sentence.

    Registered as a `DatasetReader` with name `column_tags`. In a config:

    ```jsonnet
    dataset_reader: {
      type: 'column_tags',
      coding_scheme: 'BIO',
      token_indexers: { elmo: { type: 'elmo_characters' } },
    },
    ```

    # Parameters

    token_column, tag_column : `int`, optional (default = `0` and `-1`; with `conllu` `1` and `3`, FORM and UPOS)
        The columns of the token and its tag, counted from 0, or from the end with negative numbers.
    delimiter : `str`, optional (default = any run of spaces and tabs; with `conllu` a tab)
        The separator of columns. With `"\\t"` tokens may contain spaces.
    conllu : `bool`, optional (default = `False`)
        Read CoNLL-U: skip comments, multiword ranges (`1-2`) and empty nodes (`8.1`). In the other formats a `#` begins
        an ordinary token.
    coding_scheme : `str`, optional (default = `None`)
        How the tags encode spans: `IOB1`, `BIO` (IOB2) or `BIOUL`. The tags are checked against it. `None` accepts any
        tags. For BIO tags in which some spans begin with I, use `IOB1`, which reads both.
    convert_to_coding_scheme : `str`, optional (default = `None`)
        `BIO` or `BIOUL`, or `None` to keep the tags of the file.
    token_indexers : `Dict[str, TokenIndexer]`, optional (default = `{"tokens": SingleIdTokenIndexer()}`)
        How tokens become ids; `elmo_characters` for ELMo.
    label_namespace : `str`, optional (default = `"labels"`)
        The vocabulary namespace of the tags.
    max_instances, serialization_dir
        As in `DatasetReader`.
    """

    def __init__(
        self,
        token_column: Optional[int] = None,
        tag_column: Optional[int] = None,
        delimiter: Optional[str] = None,
        conllu: bool = False,
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
        _check_schemes(coding_scheme, convert_to_coding_scheme)
        if delimiter == "":
            raise ConfigurationError("'delimiter': expected one character or more, or null for spaces and tabs, got ''")
        token_default, tag_default = (1, 3) if conllu else (0, -1)
        self._token_column = token_default if token_column is None else token_column
        self._tag_column = tag_default if tag_column is None else tag_column
        self._delimiter = "\t" if conllu and delimiter is None else delimiter
        self._conllu = conllu
        self._coding_scheme = coding_scheme
        self._target_scheme = convert_to_coding_scheme
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

    def _read(self, file_path: Location) -> Iterator[Instance]:
        logger.info("Reading tagged sentences from %s", file_path)
        for sentence in self.shard_iterable(self._sentences(file_path)):
            self._check_tags(file_path, sentence)
            yield self.text_to_instance([row.token for row in sentence], [row.tag for row in sentence])

    def _sentences(self, file_path: Location) -> Iterator[list[Row]]:
        """Yield the rows of each sentence. Every worker reads them all, so every worker reports an empty file."""
        empty = True
        for is_row, rows in groupby(self._rows(file_path), key=lambda row: row is not None):
            if is_row:
                empty = False
                yield [row for row in rows if row is not None]
        if empty:
            raise ConfigurationError(f"{fspath(file_path)}: expected sentences, one token per line, got none")

    def _rows(self, file_path: Location) -> Iterator[Optional[Row]]:
        """Yield each row, and `None` where a sentence ends."""
        first_line, width = 0, 0
        for number, line in enumerate(read_lines(file_path), 1):
            if self._conllu and line.startswith("#"):
                continue
            # In CoNLL-2003 the line that begins a document has spaces between its columns, whatever the delimiter.
            if not line.strip() or line.split()[0] == "-DOCSTART-":
                yield None
                continue
            line = line.rstrip("\r\n")
            if "\r" in line:
                raise line_error(file_path, number, "a line that ends with \\n or \\r\\n", "\\r inside it")
            columns = BLANKS.split(line.strip(" \t")) if self._delimiter is None else line.split(self._delimiter)
            if not width:
                first_line, width = number, len(columns)
                self._check_first_row(file_path, number, line, columns)
            if len(columns) != width:
                expected = f"{width} columns, as in line {first_line}"
                got = show_columns(columns) + delimiter_hint(columns, self._delimiter)
                raise line_error(file_path, number, expected, got)
            if self._conllu and OTHER_ID.fullmatch(columns[0]):
                continue
            if self._conllu and not WORD_ID.fullmatch(columns[0]):
                expected = "an id of CoNLL-U (1, 1-2 or 8.1) in the first column, or 'conllu' false for other formats"
                raise line_error(file_path, number, expected, repr(columns[0]))
            row = Row(number, columns[self._token_column], columns[self._tag_column].strip())
            if not row.token or not row.tag:
                raise line_error(file_path, number, "a token and a tag that are not empty", show_columns(columns))
            yield row

    def _check_first_row(self, file_path: Location, number: int, line: str, columns: list[str]) -> None:
        """Check that the file is not CoNLL-U unless `conllu` is set, and that both columns exist and differ.

        In CoNLL-U read as another format, ids would be tokens and comments rows. In a file split at the wrong
        delimiter, there is one column and each token would be its own tag.
        """
        ids_are_tokens = self._token_column == 0 and CONLLU_ROW.match(line)
        if not self._conllu and (CONLLU_COMMENT.match(line) or ids_are_tokens):
            raise line_error(file_path, number, "'conllu' true, or a file in another format", "CoNLL-U")
        places = {"token_column": self._token_column, "tag_column": self._tag_column}
        existing = {range(len(columns))[index] for index in places.values() if -len(columns) <= index < len(columns)}
        if len(existing) < len(places):
            names = " and ".join(f"'{name}' {index}" for name, index in places.items())
            delimiter = "spaces and tabs" if self._delimiter is None else repr(self._delimiter)
            expected = f"the two columns {names}, separated by {delimiter}"
            got = show_columns(columns) + delimiter_hint(columns, self._delimiter)
            raise line_error(file_path, number, expected, got)

    def _check_tags(self, file_path: Location, sentence: list[Row]) -> None:
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
        prefixes = ", ".join("O" if prefix == "O" else f"{prefix}-…" for prefix in PREFIXES[scheme])
        if sentence[index].line == 1:
            got += "; if it is a header, delete the line"
        expected = f"a tag that 'coding_scheme' {scheme} ({prefixes}) allows there"
        raise line_error(file_path, sentence[index].line, expected, got)


def _check_schemes(coding_scheme: Optional[str], convert_to_coding_scheme: Optional[str]) -> None:
    choices = {
        "coding_scheme": (coding_scheme, PREFIXES),
        "convert_to_coding_scheme": (convert_to_coding_scheme, TARGETS),
    }
    for key, (value, schemes) in choices.items():
        if value is not None and value not in schemes:
            raise ConfigurationError(f"'{key}': expected null or one of {', '.join(schemes)}, got {value!r}")
    if convert_to_coding_scheme and not coding_scheme:
        raise ConfigurationError(
            f"'coding_scheme': expected the scheme of the file, one of {', '.join(PREFIXES)}, to convert to "
            f"'convert_to_coding_scheme' {convert_to_coding_scheme}, got null"
        )
