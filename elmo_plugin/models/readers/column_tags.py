"""Tagged sentences, a token a line: CoNLL-2000, CoNLL-2003, WNUT-17, CoNLL-U and their like."""

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

from elmo_plugin.config_keys import at_least
from elmo_plugin.models.readers.coding_schemes import PREFIXES, TARGETS, broken_tag, recode
from elmo_plugin.models.readers.text_lines import Location, columns_found, delimiter_hint, line_error, read_lines

logger = logging.getLogger(__name__)

# Not str.split(): that also splits at the no-break space and its kin, which tokens do contain.
BLANKS = re.compile(r"[ \t]+")
# CoNLL-U, "Words, Tokens and Empty Nodes": 1 is a word, 1-2 a range of words, 8.1 an empty node.
WORD_ID = re.compile(r"[0-9]+")
OTHER_ID = re.compile(r"[0-9]+[-.][0-9]+")
# What a file of CoNLL-U begins with: a comment with one of the format's own keys, or an id and nine more columns.
CONLLU_COMMENT = re.compile(r"# *(?:newdoc|newpar|(?:sent_id|text|global\.columns) *=)")
CONLLU_ROW = re.compile(r"(?:1|1-[0-9]+)(?:\t[^\t]+){9}$")


class Row(NamedTuple):
    """A token, its tag, and the line where they stand."""

    line: int
    token: str
    tag: str


@DatasetReader.register("column_tags")
class ColumnTagsReader(DatasetReader):
    """Reads sentences from a file of columns: a token a line, its tag in another column, a blank line between two.

    Sources of the formats: CoNLL-2000 (https://www.clips.uantwerpen.be/conll2000/chunking/) and CoNLL-2003
    (https://www.clips.uantwerpen.be/conll2003/ner/), where `-DOCSTART-` lines end a sentence too; WNUT-17
    (https://noisy-text.github.io/2017/emerging-rare-entities.html), with `"delimiter": "\\t"`; CoNLL-U
    (https://universaldependencies.org/format.html), with `"conllu": true`. Windows line ends, a byte order mark and a
    missing last line end are tolerated.

    Each `Instance` has the fields `tokens` (`TextField`), `tags` (`SequenceLabelField`, if there are tags) and
    `metadata` with the key `words`. An empty sentence is one empty token: no RNN takes a sequence of length 0.

    Raises `ConfigurationError` naming file and line for bytes that are not UTF-8, a row that has not as many columns as
    the first one, an empty token or tag, and a tag that `coding_scheme` does not permit there; and for a file without a
    sentence.

    Registered as a `DatasetReader` with name `column_tags`.

    # Parameters

    token_column, tag_column : `int`, optional (default = `0` and `-1`; with `conllu` `1` and `3`, FORM and UPOS)
        Where in a line the token and its tag stand, counted from 0, or from the end with −1.
    delimiter : `str`, optional (default = any run of spaces and tabs; with `conllu` a tab)
        What separates two columns. With `"\\t"` tokens may contain spaces.
    conllu : `bool`, optional (default = `False`)
        The file is CoNLL-U: comments, multiword ranges (`1-2`) and empty nodes (`8.1`) are skipped. In the other
        formats `#` begins a token like any other.
    coding_scheme : `str`, optional (default = `None`)
        How the tags code spans: `IOB1`, `BIO` (IOB2) or `BIOUL`, and they are checked; `None` takes any tags as they
        are. For BIO in which a span may also begin with I, use `IOB1`: it reads both.
    convert_to_coding_scheme : `str`, optional (default = `None`)
        `BIO` or `BIOUL`, or `None` for tags as they are in the file.
    token_indexers : `Dict[str, TokenIndexer]`, optional (default = `{"tokens": SingleIdTokenIndexer()}`)
        How tokens become numbers.
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
            raise ConfigurationError("'delimiter' is ''; wanted at least one character, or null for spaces and tabs")
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
        """An `Instance` of a tokenised sentence; its tags are in `coding_scheme`, and are converted."""
        words = [token if isinstance(token, Token) else Token(token) for token in tokens] or [Token("")]
        sentence = TextField(words)
        fields: dict[str, Field[Any]] = {
            "tokens": sentence,
            "metadata": MetadataField({"words": [word.text for word in words]}),
        }
        if tags:
            if self._coding_scheme and self._target_scheme:
                tags = recode(tags, self._coding_scheme, self._target_scheme)
            fields["tags"] = SequenceLabelField(tags, sentence, self._label_namespace)
        return Instance(fields)

    def apply_token_indexers(self, instance: Instance) -> None:
        """Give the tokens their indexers, in the process that needs them."""
        instance["tokens"].token_indexers = self._token_indexers  # type: ignore[attr-defined]

    def _read(self, file_path: Location) -> Iterator[Instance]:
        logger.info("Reading tagged sentences from %s", file_path)
        for sentence in self.shard_iterable(self._sentences(file_path)):
            self._check_tags(file_path, sentence)
            yield self.text_to_instance([row.token for row in sentence], [row.tag for row in sentence])

    def _sentences(self, file_path: Location) -> Iterator[list[Row]]:
        """The rows of each sentence. Every worker reads them all, so that each notices a file without any."""
        empty = True
        for is_row, rows in groupby(self._rows(file_path), key=lambda row: row is not None):
            if is_row:
                empty = False
                yield [row for row in rows if row is not None]
        if empty:
            raise ConfigurationError(f"{fspath(file_path)}: found no sentence; wanted lines of columns")

    def _rows(self, file_path: Location) -> Iterator[Optional[Row]]:
        """Each row, and `None` where a sentence ends."""
        first_line, width = 0, 0
        for number, line in enumerate(read_lines(file_path), 1):
            if self._conllu and line.startswith("#"):
                continue
            columns = self._split(line)
            if not columns:
                yield None
                continue
            if not width:
                first_line, width = number, len(columns)
                self._check_format(file_path, number, line)
                self._check_width(file_path, number, columns)
            if len(columns) != width:
                wanted = f"{width}, as in line {first_line}{delimiter_hint(columns, self._delimiter)}"
                raise line_error(file_path, number, columns_found(columns), wanted)
            if not self._conllu or self._is_word(file_path, number, columns[0]):
                yield self._row(file_path, number, columns)

    def _split(self, line: str) -> list[str]:
        """The columns of a line; none where a sentence ends."""
        # The line of CoNLL-2003 that begins a document has blanks between its columns, whatever the others have.
        if not line.strip() or line.split()[0] == "-DOCSTART-":
            return []
        line = line.rstrip("\r\n")
        return BLANKS.split(line.strip(" \t")) if self._delimiter is None else line.split(self._delimiter)

    def _row(self, file_path: Location, line: int, columns: list[str]) -> Row:
        row = Row(line, columns[self._token_column], columns[self._tag_column].strip())
        if not row.token or not row.tag:
            raise line_error(file_path, line, columns_found(columns), "a token and a tag that are not empty")
        return row

    def _is_word(self, file_path: Location, line: int, word_id: str) -> bool:
        if not WORD_ID.fullmatch(word_id) and not OTHER_ID.fullmatch(word_id):
            wanted = "an id of CoNLL-U (1, 1-2 or 8.1), or 'conllu' false for a file of other columns"
            raise line_error(file_path, line, f"{word_id!r} in the first column", wanted)
        return WORD_ID.fullmatch(word_id) is not None

    def _check_format(self, file_path: Location, number: int, line: str) -> None:
        """CoNLL-U that is read as other columns has its ids for tokens, or comments for rows of another width."""
        ids_are_tokens = self._token_column == 0 and CONLLU_ROW.match(line.rstrip("\r\n"))
        if not self._conllu and (CONLLU_COMMENT.match(line) or ids_are_tokens):
            raise line_error(
                file_path, number, "CoNLL-U", "'conllu' true, which reads its words and skips its comments"
            )

    def _check_width(self, file_path: Location, line: int, columns: list[str]) -> None:
        """Both columns must exist and differ: a file split at the wrong delimiter has each token as its own tag."""
        places = {"token_column": self._token_column, "tag_column": self._tag_column}
        found = {range(len(columns))[index] for index in places.values() if -len(columns) <= index < len(columns)}
        if len(found) < len(places):
            names = " and ".join(f"'{name}' {index}" for name, index in places.items())
            delimiter = "spaces and tabs" if self._delimiter is None else repr(self._delimiter)
            expected = f"{names}, two columns, divided by {delimiter}{delimiter_hint(columns, self._delimiter)}"
            raise line_error(file_path, line, columns_found(columns), expected)

    def _check_tags(self, file_path: Location, sentence: list[Row]) -> None:
        tags = [row.tag for row in sentence]
        scheme = self._coding_scheme
        index = broken_tag(tags, scheme) if scheme else None
        if scheme is None or index is None:
            return
        before, after = [repr(tag) for tag in tags[:index]], [repr(tag) for tag in tags[index + 1 :]]
        found = f"tag {tags[index]!r} between {['the start', *before][-1]} and {[*after, 'the end of the sentence'][0]}"
        allowed = ", ".join("O" if prefix == "O" else f"{prefix}-…" for prefix in PREFIXES[scheme])
        wanted = f"one that 'coding_scheme' {scheme} ({allowed}) permits there"
        if sentence[index].line == 1:
            wanted += "; a header is not skipped, delete it"
        raise line_error(file_path, sentence[index].line, found, wanted)


def _check_schemes(coding_scheme: Optional[str], convert_to_coding_scheme: Optional[str]) -> None:
    if coding_scheme not in (None, *PREFIXES):
        raise ConfigurationError(f"'coding_scheme' is {coding_scheme!r}; wanted null or one of {', '.join(PREFIXES)}")
    if convert_to_coding_scheme not in (None, *TARGETS):
        raise ConfigurationError(
            f"'convert_to_coding_scheme' is {convert_to_coding_scheme!r}; wanted null or one of {', '.join(TARGETS)}"
        )
    if convert_to_coding_scheme and not coding_scheme:
        raise ConfigurationError(
            f"'convert_to_coding_scheme' is {convert_to_coding_scheme!r} and 'coding_scheme' null; wanted there "
            f"what the file holds, one of {', '.join(PREFIXES)}"
        )
