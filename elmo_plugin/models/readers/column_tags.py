"""A reader of tagged sentences with one token per line: CoNLL-2000, CoNLL-2003, WNUT-17, CoNLL-U and similar."""

import logging
import re
from collections.abc import Collection, Iterator, Sequence
from operator import sub
from os import fspath
from typing import Any, NamedTuple, Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Field, Instance, Token, TokenIndexer
from allennlp.data.fields import MetadataField, SequenceLabelField, TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_plugin.common import at_least
from elmo_plugin.models.readers.rows import Location, delimiter_hint, line_error, read_lines, show_columns
from elmo_plugin.models.spans import OTHER_NAMES, SCHEMES, TARGETS, convert_tags, first_invalid_tag
from elmo_plugin.text import as_tokens, split_tokens

logger = logging.getLogger(__name__)

DOCUMENT = "-DOCSTART-"
"""The first token of the line that begins a document in CoNLL-2003. It stands after the index if there is one."""
# CoNLL-U, "Words, Tokens and Empty Nodes": 1 is a word, 1-2 a multiword range, 8.1 an empty node.
WORD_ID = re.compile(r"[0-9]+")
OTHER_ID = re.compile(r"[0-9]+[-.][0-9]+")
CONLLU_WIDTH = 10
SAMPLE = 10
"""The number of sentences after which the reader checks that the token column holds tokens."""
TAG = re.compile(r"O|[BIESLUM]-.+")
HEADER = (
    {"token", "tokens", "word", "words", "form", "text"},
    {"tag", "tags", "label", "labels", "ner", "ner_tags", "pos"},
)
"""Names of the two columns in files with a header, in lower case."""


class TaggedToken(NamedTuple):
    """A token and its tag, with their line number."""

    line: int
    token: str
    tag: str


class Line(NamedTuple):
    """A line of a sentence, split into columns."""

    number: int
    text: str
    columns: list[str]


@DatasetReader.register("column_tags")
class ColumnTagsReader(DatasetReader):
    """Read tagged sentences from a file with one token per line, its tag in another column, and blank lines between.

    Supported formats: CoNLL-2000 (https://www.clips.uantwerpen.be/conll2000/chunking/); CoNLL-2003
    (https://www.clips.uantwerpen.be/conll2003/ner/), where `-DOCSTART-` lines also end a sentence; WNUT-17
    (https://noisy-text.github.io/2017/emerging-rare-entities.html) with `"delimiter": "\\t"`; CoNLL-U
    (https://universaldependencies.org/format.html) with `"conllu": true`; and files whose first column is an index, as
    in CoNLL-2009, with `"token_column": 1`. A file may be compressed (.gz or .xz), and may have Windows line ends, a
    byte order mark, and no line end at its end.

    A line that begins with `#` is a comment if it stands before the first token of a sentence, and either has another
    number of columns than the tokens, or has an equals sign as a column or in the tag's column: `# text = …`,
    `# id 31 domain=dev`. Any other `#` begins a token, such as a hashtag.

    Each `Instance` has the fields `tokens` (`TextField`), `tags` (`SequenceLabelField`, if there are tags) and
    `metadata` with the key `words`. A sentence without tokens gets one empty token, because no RNN reads a sequence of
    length 0.

    Raises `ConfigurationError` naming the file and the line for a line that is not UTF-8 text, a row with more or fewer
    columns than the rows before, an empty token or tag, and a tag that `coding_scheme` does not allow there; for a
    token column that holds numbers, tags or underscores, unless `token_column` is given; and for a file without a
    sentence.

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
        The columns of the token and its tag, counted from 0, or from the end with negative numbers. If both are counted
        from 0, sentences may have different numbers of columns, as in CoNLL-2009.
    delimiter : `str`, optional (default = any run of ASCII white space; with `conllu` a tab)
        The separator of columns. With `"\\t"` tokens may contain spaces.
    conllu : `bool`, optional (default = `None`)
        Whether to read CoNLL-U: skip comments, multiword ranges (`1-2`) and empty nodes (`8.1`). `None` means false,
        and an error for a file that looks like CoNLL-U.
    has_header : `bool`, optional (default = `None`)
        Whether the first row holds the names of the columns. `None` means false, and an error for a row that looks like
        a header.
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
        token_column: Optional[int] = None,
        tag_column: Optional[int] = None,
        delimiter: Optional[str] = None,
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
        token_default, tag_default = (1, 3) if conllu else (0, -1)
        self._token_column = token_default if token_column is None else token_column
        self._tag_column = tag_default if tag_column is None else tag_column
        self._delimiter = "\t" if conllu and delimiter is None else delimiter
        self._conllu = bool(conllu)
        self._may_be_conllu = conllu is None
        self._may_be_another_column = token_column is None
        self._has_header = has_header
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

    def _read(self, file_path: Location) -> Iterator[Instance]:
        logger.info("Reading tagged sentences from %s", file_path)
        for sentence in self.shard_iterable(self._sentences(file_path)):
            self._check_tags(file_path, sentence)
            yield self.text_to_instance([row.token for row in sentence], [row.tag for row in sentence])

    def _sentences(self, file_path: Location) -> Iterator[list[TaggedToken]]:
        """Yield each sentence. Every worker reads them all, so every worker reports what is wrong with the file."""
        sample: list[list[TaggedToken]] = []
        first: Optional[Line] = None  # the row that says how many columns there are
        may_differ = not self._conllu and min(self._token_column, self._tag_column) >= 0
        comments = 0
        for lines in self._blocks(file_path):
            rows = self._without_comments(file_path, lines, first)
            comments += len(lines) - len(rows)
            if not rows:
                continue
            is_header = first is None and self._has_header
            if first is None or may_differ:
                first = rows[0]
                self._check_first_row(file_path, first)
            tokens = rows[1:] if is_header else rows
            sentence = [token for row in tokens for token in self._tagged_token(file_path, row, first)]
            if not sentence:
                continue
            if len(sample) < SAMPLE:
                sample.append(sentence)
                if len(sample) == SAMPLE:
                    self._check_tokens(file_path, sample)
            yield sentence
        if not sample:
            raise ConfigurationError(f"{fspath(file_path)}: expected sentences, one token per line, got none")
        if len(sample) < SAMPLE:
            self._check_tokens(file_path, sample)
        if comments:
            logger.info("%s: %d comments are left out", fspath(file_path), comments)

    def _blocks(self, file_path: Location) -> Iterator[list[Line]]:
        """Yield the lines between blank lines and lines that begin a document, each split into columns."""
        block: list[Line] = []
        for number, line in enumerate(read_lines(file_path), 1):
            text = line.rstrip("\r\n")
            if "\r" in text:
                raise line_error(file_path, number, "a line that ends with \\n or \\r\\n", "\\r inside it")
            # The line that begins a document has spaces between its columns, whatever the delimiter.
            if not text.strip() or (DOCUMENT in text and DOCUMENT in split_tokens(text)[:2]):
                if block:
                    yield block
                block = []
            else:
                columns = split_tokens(text) if self._delimiter is None else text.split(self._delimiter)
                block.append(Line(number, text, columns))
        if block:
            yield block

    def _without_comments(self, file_path: Location, lines: list[Line], first: Optional[Line]) -> list[Line]:
        """Return the lines of a sentence without the comments before it, or with `conllu` without any comments."""
        if not lines[0].text.startswith("#"):
            return lines
        if self._conllu:
            return [line for line in lines if not line.text.startswith("#")]
        row = next((line for line in lines if not line.text.startswith("#")), first)
        if row is None:  # all lines up to here begin with #, so the width is that of the first one that does not
            blocks = (line for block in self._blocks(file_path) for line in block)
            row = next((line for line in blocks if not line.text.startswith("#")), lines[-1])
        for index, (_, text, columns) in enumerate(lines):
            tag = "".join(columns[self._tag_column :][:1])  # empty if there is no such column
            is_row = len(columns) == len(row.columns) and "=" not in columns and "=" not in tag
            if is_row or not text.startswith("#"):
                return lines[index:]
        return []

    def _tagged_token(self, file_path: Location, row: Line, first: Line) -> Iterator[TaggedToken]:
        """Yield the token of a row and its tag, or nothing for a row of CoNLL-U that is not a word."""
        number, _, columns = row
        if len(columns) != len(first.columns):
            expected = f"{len(first.columns)} columns, as in line {first.number}"
            raise line_error(
                file_path, number, expected, show_columns(columns) + delimiter_hint(columns, self._delimiter)
            )
        is_other_id = OTHER_ID.fullmatch(columns[0]) is not None
        if self._conllu and not is_other_id and not WORD_ID.fullmatch(columns[0]):
            expected = "an id of CoNLL-U (1, 1-2 or 8.1) in the first column, or 'conllu' false for other formats"
            raise line_error(file_path, number, expected, repr(columns[0]))
        if is_other_id and self._may_be_conllu and self._token_column > 0 and len(columns) == CONLLU_WIDTH:
            expected = "'conllu' true to skip what is not a word, or false for another format"
            raise line_error(file_path, number, expected, f"the id {columns[0]!r}")
        if self._conllu and is_other_id:
            return
        token, tag = columns[self._token_column], columns[self._tag_column].strip()
        if not token or not tag:
            raise line_error(file_path, number, "a token and a tag that are not empty", show_columns(columns))
        yield TaggedToken(number, token, tag)

    def _check_first_row(self, file_path: Location, row: Line) -> None:
        """Check that both columns exist and differ, and that the row looks neither like CoNLL-U nor like a header.

        In a file split at the wrong delimiter, there is one column and each token would be its own tag.
        """
        number, text, columns = row
        places = {"token_column": self._token_column, "tag_column": self._tag_column}
        existing = {range(len(columns))[index] for index in places.values() if -len(columns) <= index < len(columns)}
        if len(existing) < len(places):
            names = " and ".join(f"'{name}' {index}" for name, index in places.items())
            delimiter = "white space" if self._delimiter is None else repr(self._delimiter)
            expected = f"the two columns {names}, separated by {delimiter}"
            raise line_error(
                file_path, number, expected, show_columns(columns) + delimiter_hint(columns, self._delimiter)
            )
        is_conllu = text.count("\t") == CONLLU_WIDTH - 1 and re.match(r"1(-[0-9]+)?\t", text)
        if is_conllu and self._may_be_conllu and self._token_column == 0:
            raise line_error(file_path, number, "'conllu' true, or false for another format", "what looks like CoNLL-U")
        token, tag = columns[self._token_column].lower(), columns[self._tag_column].lower()
        if self._has_header is None and token in HEADER[0] and tag in HEADER[1]:
            got = f"what looks like a header, {show_columns(columns)}; set 'has_header' true, or false if it is a token"
            raise line_error(file_path, number, "a token", got)

    def _check_tokens(self, file_path: Location, sentences: list[list[TaggedToken]]) -> None:
        """Check that the first sentences are made of tokens, unless the configuration names the column."""
        tokens = [row.token for sentence in sentences for row in sentence]
        if len(tokens) < 3 or not self._may_be_another_column:
            return
        got = None
        numbers = [[int(row.token) for row in sentence] for sentence in sentences if all(map(str.isdecimal, tokens))]
        if {step for sentence in numbers for step in map(sub, sentence[1:], sentence)} == {1}:
            got = f"the numbers {', '.join(tokens[:3])}, …"
        elif all(token == "_" for token in tokens):
            got = "nothing but '_'"
        elif all(map(TAG.fullmatch, tokens)) and any("-" in token for token in tokens):
            got = f"tags ({', '.join(sorted({*tokens})[:3])}, …)"
        elif len(sentences) > 2 and all(sentence[0].token == "#" for sentence in sentences):
            got = "'#' at the beginning of each sentence (delete comments with as many columns as the rows)"
        if got is not None:
            got += f"; set 'token_column' to the column of the tokens, which may be {self._token_column} after all"
            raise line_error(file_path, sentences[0][0].line, "tokens", got)

    def _check_tags(self, file_path: Location, sentence: list[TaggedToken]) -> None:
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
        if fitting:  # BIOES and BMES differ in the middle of a span alone
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
