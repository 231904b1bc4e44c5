"""The one place that guesses whether the columns of a user's files are those that the config says."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from os import PathLike, fspath
from typing import Any

from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader
from more_itertools import unique_everseen

from elmo_plugin.models.readers.column_tags import ColumnTagsReader, TaggedToken
from elmo_plugin.models.readers.text_classification_csv import LabelledText, TextClassificationCsvReader
from elmo_plugin.models.spans import SCHEMES, TAGS_TO_SPANS, first_invalid_tag
from elmo_plugin.text import (
    CONLLU_ID,
    NUMBER,
    ROWS_PER_LABEL,
    SPAN_TAG,
    TAGGED_WORDS,
    FilePath,
    is_header,
    line_error,
    lines_of,
    show_columns,
)

ONLY_FOR_INSTANCES = ("token_indexers", "tokenizer", "max_instances")
"""Keys of the readers that say nothing about the file."""
SAMPLE = 1000
"""The number of sentences or texts that are judged."""
ENOUGH = 50
"""In fewer rows, many different labels are no surprise."""
ALL_IN_ONE = 100
"""A file of one sentence with more tokens than this lacks its blank lines."""
MOST_NUMBERED_TAGS = 10
"""More different numbers are counts or indices, even if the config names their column as that of the tags."""
MOST_ODD_TAGS = 3
"""Different tags that are no spans and not O, such as a bare `B-`, among tags that are spans."""
CONLLU_WIDTH = 10
QUOTED = re.compile(r'"(?:[^"]|"")+"')


def doubtful_columns(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield what looks wrong in the first rows of each file that a config reads by a reader of this package.

    Each message names the file, what was found there, and the key that mends it or says that the file is right. The
    readers do what they are told; nothing but these messages depends on a guess.
    """
    model = config.get("model")
    is_scored = not isinstance(model, Mapping) or model.get("label_encoding") is not None
    reader = config.get("dataset_reader")
    other = config.get("validation_dataset_reader") or reader
    readers = {"train": reader, "validation": other, "test": other}
    found = (_of_reader(keys, config.get(f"{part}_data_path"), is_scored) for part, keys in readers.items())
    yield from unique_everseen(chain.from_iterable(found))


def _of_reader(keys: Any, path: Any, is_scored: bool) -> Iterator[str]:
    if isinstance(keys, str):
        keys = {"type": keys}
    if not isinstance(keys, Mapping):
        return
    if keys.get("type") == "multitask" and isinstance(path, Mapping):
        for name, one_path in path.items():
            yield from _of_reader(keys.get("readers", {}).get(name), one_path, is_scored)
    if not isinstance(path, str | PathLike):
        return
    if keys.get("type") == "conll2003":
        _check_conll2003(path)
    if keys.get("type") not in ("column_tags", "text_classification_csv"):
        return
    about_the_file = {key: value for key, value in keys.items() if key not in ONLY_FOR_INSTANCES}
    try:
        reader = DatasetReader.from_params(Params({**about_the_file}))
    except ConfigurationError:  # training reports it, with its place in the config
        return
    if isinstance(reader, ColumnTagsReader):
        sentences = _first(reader.sentences(path))
        found = [*_about_tags(about_the_file, sentences)]
        if not is_scored and "coding_scheme" not in keys:
            found += _about_spans(sentences)
    elif isinstance(reader, TextClassificationCsvReader):
        found = [*_about_labels(about_the_file, _first(reader.rows(path)))]
    for message in found:
        yield f"{fspath(path)}: {message}"


def _first(rows: Iterator[Any]) -> list[Any]:
    """Return the first rows or sentences, up to an error, which training reports."""
    first: list[Any] = []
    with suppress(ConfigurationError, OSError):
        first.extend(islice(rows, SAMPLE))
    return first


def _about_tags(keys: Mapping[str, Any], sentences: list[list[TaggedToken]]) -> Iterator[str]:
    rows = [row for sentence in sentences for row in sentence]
    if not rows:
        return
    columns = show_columns(rows[0].columns)
    ids = [row.columns[0] for row in rows]
    are_conllu = all(len(row.columns) == CONLLU_WIDTH for row in rows) and all(map(CONLLU_ID.fullmatch, ids))
    if are_conllu and keys.get("conllu") is None and not (keys.get("token_column") and all(map(str.isdecimal, ids))):
        yield f"line {rows[0].line} looks like CoNLL-U, {columns}; set 'conllu' true, or false for another format"
        return
    if keys.get("delimiter") and keys.get("quote_char") is None:
        quoted = next((cell for row in rows for cell in row.columns if QUOTED.fullmatch(cell)), None)
        if quoted is not None:
            yield f"the cell {quoted} looks quoted; set 'quote_char' to '\"' to read what is inside the quotes"
    if _may_have_header(keys) and not SPAN_TAG.fullmatch(rows[0].tag) and is_header([row.columns for row in rows]):
        yield (
            f"line {rows[0].line} looks like a header, {columns}; set 'has_header' true, or false if it is a token, or "
            "give the columns by their names"
        )
        rows = rows[1:]
        sentences = [sentences[0][1:], *sentences[1:]]
    if keys.get("token_column") is None and (got := _instead_of_tokens(list(filter(None, sentences)))):
        default = 1 if keys.get("conllu") else 0
        yield (
            f"expected tokens in column {default}, got {got}; set 'token_column' to the column of the tokens, counted "
            f"from 0 in {columns}, or to {default} if these are the tokens"
        )
    if len(sentences) == 1 and len(rows) > ALL_IN_ONE:
        yield f"all {len(rows):,} tokens are one sentence; put a blank line after each sentence"
    tags = dict.fromkeys(row.tag for row in rows)
    is_given = keys.get("tag_column") is not None
    if all(map(NUMBER.fullmatch, tags)) and (not is_given or len(tags) > MOST_NUMBERED_TAGS):
        yield f"all tags are numbers ({_some(tags)}); set 'tag_column' to the column of the tags, in {columns}"
    elif len(tags) == 1 and len(rows) > 1:
        yield (
            f"all {len(rows):,} tags are {rows[0].tag!r}, so there is nothing to learn; set 'tag_column' to the column "
            f"of the tags, in {columns}"
        )


def _about_spans(sentences: list[list[TaggedToken]]) -> Iterator[str]:
    """Yield which scheme fits tags that look like spans, in a config that names none."""
    found = [[row.tag for row in sentence] for sentence in sentences]
    tags = {tag for each in found for tag in each}
    spans = sorted(tag for tag in tags - {"O"} if SPAN_TAG.fullmatch(tag))
    if not spans or len(tags - {"O", *spans}) > MOST_ODD_TAGS:
        return
    wrong = {scheme: [first_invalid_tag(each, scheme) for each in found] for scheme in SCHEMES}
    best = max(SCHEMES, key=lambda scheme: wrong[scheme].count(None))
    keys = f"'coding_scheme' '{best}' in the reader"
    keys += (
        f" and 'label_encoding' '{best}' in the model"
        if best in TAGS_TO_SPANS
        else (", 'convert_to_coding_scheme' 'BIOUL', and 'label_encoding' 'BIOUL' in the model")
    )
    message = f"tags such as {_some(spans)} look like spans, which are not scored without their scheme; they fit {best}"
    for sentence, index in zip(sentences, wrong[best], strict=True):
        if index is not None:
            message += f", except {sentence[index].tag!r} in line {sentence[index].line}"
            break
    yield f"{message}: set {keys}, or 'coding_scheme' null if they are no spans"


def _check_conll2003(path: FilePath) -> None:
    """Raise `ConfigurationError` for columns at which AllenNLP's reader would raise a `ValueError`."""
    for number, line in enumerate(_first(lines_of(path, TAGGED_WORDS)), 1):
        columns = line.split()
        if columns and len(columns) != 4:
            got = f"{show_columns(columns)}; the reader 'column_tags' reads any number of columns"
            raise line_error(path, number, "four columns for AllenNLP's reader 'conll2003'", got)


def _instead_of_tokens(sentences: Sequence[Sequence[TaggedToken]]) -> str:
    """Return what is in the column of the tokens, or an empty string if it may be tokens."""
    tokens = [row.token for sentence in sentences for row in sentence]
    if len(tokens) < 3:
        return ""
    if all(any(map(str.isdecimal, token)) for token in tokens):
        return f"numbers or names with numbers ({_some(tokens)})"
    if any(len(sentence) > 1 for sentence in sentences) and all(
        len({row.token for row in sentence}) == 1 for sentence in sentences
    ):
        return f"the same in all rows of a sentence ({_some(tokens)})"
    if all(map(SPAN_TAG.fullmatch, tokens)) and any("-" in token for token in tokens):
        return f"tags ({_some(tokens)})"
    if len(sentences) > 2 and all(sentence[0].token == "#" for sentence in sentences):
        return "'#' at the beginning of each sentence (delete comments with as many columns as the rows)"
    return ""


def _about_labels(keys: Mapping[str, Any], rows: list[LabelledText]) -> Iterator[str]:
    if len(rows) <= ROWS_PER_LABEL or rows[0].label is None:
        return
    first, *others = rows
    texts, labels = {row.text for row in others}, {row.label for row in others}
    n_repeated = len(others) // ROWS_PER_LABEL
    is_short = len(first.text.split()) <= 3 and 2 * sum(len(row.text) > len(first.text) for row in others) > len(others)
    if _may_have_header(keys) and is_short and len(labels) <= n_repeated and first.label not in labels:
        yield (
            f"line {first.line} looks like a header, {first.label!r} and {first.text!r}; set 'has_header' true if they "
            "are names of columns, or false if they are a label and a text"
        )
    are_swapped = len(texts) <= n_repeated
    if keys.get("text_columns") is None and 2 * len(labels) > len(others) and (are_swapped or len(others) >= ENOUGH):
        but_texts = f", but only {len(texts):,} different texts" if are_swapped else ""
        yield (
            f"expected labels that many rows share, got {len(labels):,} in {len(others):,} rows ({_some(labels)})"
            f"{but_texts}; set 'label_column' to the column of the labels, or also 'text_columns' if this is right"
        )


def _may_have_header(keys: Mapping[str, Any]) -> bool:
    """Return whether the config does not say if the first row is a header, as names of columns do."""
    columns = [keys.get("token_column"), keys.get("tag_column"), keys.get("label_column")]
    columns += keys.get("text_columns") or []
    return keys.get("has_header") is None and not any(isinstance(column, str) for column in columns)


def _some(values: Any) -> str:
    distinct = list(dict.fromkeys(map(str, values)))
    return ", ".join(repr(value[:30]) for value in distinct[:3]) + (", …" if len(distinct) > 3 else "")
