"""Check the data of a config before training: its columns, labels and texts, and whether the model fits them.

What the columns of a user's file are is guessed here and nowhere else.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from os import PathLike, fspath
from typing import Any, NamedTuple, Optional

from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, DatasetReader, Instance, Vocabulary
from allennlp.data.fields import LabelField, TextField
from allennlp.models import Model
from more_itertools import spy, unique_everseen

from elmo_plugin.common import count_labels, labels_not_in_train, some_of
from elmo_plugin.models.readers import ColumnTagsReader, LabelledText, TaggedToken
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

LONG = 400
"""Texts with more tokens than this are long. The memory of a batch grows with its longest text."""
RARE = 5
"""Labels with fewer examples than this are rare."""
MAX_BYTES = 48
"""`elmo_characters` reads this many bytes of a word in UTF-8 and cuts off the rest."""
DEBRIS = re.compile(r"<br|</?[a-z]+>|&(?:#\d+|amp|lt|gt|quot|nbsp);|#39;|\ufffd", re.IGNORECASE)
"""A pattern for the traces of markup or of a wrong encoding in a text."""
MOST_COMPARED = 10**6
"""The number of distinct texts of a part that are kept, as hashes, to find repeated ones. They take about 150 MB."""
ONLY_FOR_INSTANCES = ("token_indexers", "tokenizer", "max_instances")
"""Keys of the readers that say nothing about the file."""
JUDGED = 1000
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


@dataclass
class Part:
    """One part of the data, in memory that does not grow with it beyond `MOST_COMPARED` texts.

    `problems` is the number of texts with each problem, in the words of the advice, and `labels` has the labels of each
    field with their counts. `compared` has the hash of each distinct text, with the labels of its first occurrence, or
    `None` after it had others.
    """

    name: str
    first_instances: list[Instance]
    n_texts: int = 0
    n_tokens: int = 0
    longest: int = 0
    problems: Counter[str] = field(default_factory=Counter)
    labels: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    compared: dict[int, Optional[tuple[str, ...]]] = field(default_factory=dict)

    def add(self, instance: Instance, train: Optional["Part"]) -> None:
        """Count one text, and compare it with those of `train`."""
        fields = instance.fields.values()
        tokens = [token.text or "" for field in fields if isinstance(field, TextField) for token in field.tokens]
        labels = tuple(str(field.label) for field in fields if isinstance(field, LabelField))
        count_labels(instance, self.labels)
        self.n_texts += 1
        self.n_tokens += len(tokens)
        self.longest = max(self.longest, len(tokens))
        text = hash(tuple(tokens))
        found = {
            "are empty; delete them, or look for a broken line": not any(tokens),
            f"have more than {LONG} tokens; split them, or make smaller batches": len(tokens) > LONG,
            f"have words that are cut to {MAX_BYTES} bytes; look for missing spaces": any(
                len(word.encode("utf-8", "ignore")) > MAX_BYTES for word in tokens
            ),
            "contain markup such as <br> or &#39;, or U+FFFD; clean them": DEBRIS.search(" ".join(tokens)) is not None,
            "are also in train, so scores will be too high; remove them from one of the two": (
                train is not None and text in train.compared
            ),
        }
        is_compared = text in self.compared or len(self.compared) < MOST_COMPARED
        if is_compared and self.compared.setdefault(text, labels) != labels:
            self.compared[text] = None
        self.problems.update(problem for problem, is_there in found.items() if is_there)


class DataCheck(NamedTuple):
    """The data of a config, why it cannot train (`failures`), and what to do about the texts and labels (`advice`)."""

    parts: list[Part]
    failures: list[str]
    advice: list[str]


def check_data(params: Params, sentences: Optional[int] = None) -> DataCheck:
    """Read the data of a config, build its model and run it on two texts.

    # Parameters

    params : `Params`
        A config of `elmo-plugin train`.
    sentences : `Optional[int]`
        Read only this many texts of each part.
    """
    parts: dict[str, Part] = {}
    failures = []
    for name in ("train", "validation", "test"):
        path = params.get(f"{name}_data_path", None)
        if path is not None:
            try:
                parts[name] = _read(name, params, path, sentences, parts.get("train"))
            except Exception as error:  # a reader of another package may raise anything
                failures.append(f"'{name}_data_path': {_message(error)}")
    if params.get("train_data_path") is None:
        failures.append("'train_data_path': expected a path, got none")
    if "train" in parts:
        try:
            _try_model(params, parts, sentences)
        except Exception as error:  # and so may a model
            failures.append(f"'model': {_message(error)}")
    return DataCheck([*parts.values()], failures, [*doubtful_columns(params.params), *_advice(parts)])


def _instances(name: str, params: Params, path: str, sentences: Optional[int]) -> Iterator[Instance]:
    keys = params.duplicate()
    own = keys.get("validation_dataset_reader", None) if name != "train" else None
    reader = DatasetReader.from_params(own or keys.pop("dataset_reader"))
    yield from islice(reader.read(path), sentences)


def _read(name: str, params: Params, path: str, sentences: Optional[int], train: Optional[Part]) -> Part:
    first, instances = spy(_instances(name, params, path, sentences), 2)
    if not first:
        raise ConfigurationError(f"{path}: expected texts, got none")
    part = Part(name, first)
    for instance in instances:
        part.add(instance, train)
    return part


def _try_model(params: Params, parts: Mapping[str, Part], sentences: Optional[int]) -> None:
    """Build the model as `elmo-plugin train` does, and compute the loss of the first two training texts."""
    keys = params.duplicate()
    # A vocabulary that is made of instances reads the data a second time.
    instances = chain.from_iterable(
        _instances(name, params, params.get(f"{name}_data_path"), sentences) for name in parts
    )
    vocab = Vocabulary.from_params(keys.pop("vocabulary", {}), instances=instances)
    model = Model.from_params(keys.pop("model"), vocab=vocab)
    batch = Batch(parts["train"].first_instances)
    batch.index_instances(vocab)
    model(**batch.as_tensor_dict())


def _advice(parts: Mapping[str, Part]) -> Iterator[str]:
    """Yield what to do about texts and labels."""
    train = parts.get("train")
    for name, part in parts.items():
        for problem, count in part.problems.items():
            yield f"{name}: {count:,} of {part.n_texts:,} texts {problem}"
        if train is not None:
            yield from labels_not_in_train(name, part.labels, train.labels)
    if train is not None:
        for name, counts in train.labels.items():
            if len(counts) == 1:
                yield f"train: every label of '{name}' is {next(iter(counts))!r}, so there is nothing to learn"
            if rare := sorted(label for label, count in counts.items() if count < RARE):
                labels = f"1 label of '{name}' has" if len(rare) == 1 else f"{len(rare)} labels of '{name}' have"
                yield f"train: {labels} fewer than {RARE} examples ({some_of(rare)}); add some, or drop such a label"
        if contradicting := sum(labels is None for labels in train.compared.values()):
            yield f"train: {contradicting:,} texts occur with different labels; keep one label for each"


def _message(error: Exception) -> str:
    """Return the first line of an error's message, after its type unless it is a `ConfigurationError`."""
    text = str(error).strip().split("\n")[0]
    return text if isinstance(error, ConfigurationError) else f"{type(error).__name__}: {text}"


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
    keys = {"type": keys} if isinstance(keys, str) else keys
    if isinstance(keys, Mapping) and isinstance(path, Mapping) and keys.get("type") == "multitask":
        for name, one_path in path.items():
            yield from _of_reader(keys.get("readers", {}).get(name), one_path, is_scored)
    if not isinstance(keys, Mapping) or not isinstance(path, str | PathLike):
        return
    if keys.get("type") == "conll2003":
        _check_conll2003(path)
    if keys.get("type") not in ("column_tags", "text_classification_csv"):
        return
    about_the_file = {key: value for key, value in keys.items() if key not in ONLY_FOR_INSTANCES}
    examples: list[Any] = []
    with suppress(ConfigurationError, OSError):  # training reports it, with its place in the config
        reader: Any = DatasetReader.from_params(Params(about_the_file))
        examples.extend(islice(reader.examples(path), JUDGED))
    if not examples:
        return
    may_have_header = keys.get("has_header") is None and not reader.has_header
    if isinstance(reader, ColumnTagsReader):
        doubts = _about_tags(keys, may_have_header, examples)
        if not is_scored and "coding_scheme" not in keys:
            doubts |= dict.fromkeys(_about_spans(examples), True)
    else:
        doubts = _about_labels(keys, may_have_header, examples)
    yield from (f"{fspath(path)}: {message}" for message, is_justified in doubts.items() if is_justified)


def _about_tags(keys: Mapping[str, Any], may_have_header: bool, sentences: list[list[TaggedToken]]) -> dict[str, bool]:
    """Return each doubt about the columns of tagged words, and whether it is justified."""
    tokens = [token for sentence in sentences for token in sentence]
    first, table = tokens[0].row, [token.row.cells for token in tokens]
    columns, ids = show_columns(first.cells), [cells[0] for cells in table]
    are_conllu = {*map(len, table)} == {CONLLU_WIDTH} and all(map(CONLLU_ID.fullmatch, ids))
    if are_conllu and keys.get("conllu") is None and not (keys.get("token_column") and all(map(str.isdecimal, ids))):
        return {
            f"line {first.line} looks like CoNLL-U, {columns}; set 'conllu' true, or false for another format": True
        }
    has_header = may_have_header and not SPAN_TAG.fullmatch(tokens[0].tag) and is_header(table)
    if has_header:
        tokens = tokens[1:]
        sentences = [sentence for sentence in (sentences[0][1:], *sentences[1:]) if sentence]
    quoted = next(filter(QUOTED.fullmatch, chain.from_iterable(table)), "")
    got, default = _instead_of_tokens(sentences), 1 if keys.get("conllu") else 0
    tags = dict.fromkeys(token.tag for token in tokens)
    are_numbers = all(map(NUMBER.fullmatch, tags)) and (
        keys.get("tag_column") is None or len(tags) > MOST_NUMBERED_TAGS
    )
    set_tags = f"set 'tag_column' to the column of the tags, in {columns}"
    return {
        f"the cell {quoted} looks quoted; set 'quote_char' to '\"' to read what is inside the quotes": (
            bool(quoted) and bool(keys.get("delimiter")) and keys.get("quote_char") is None
        ),
        f"line {first.line} looks like a header, {columns}; set 'has_header' true, or false if it is a token, or "
        "give the columns by their names": has_header,
        f"expected tokens in column {default}, got {got}; set 'token_column' to the column of the tokens, counted "
        f"from 0 in {columns}, or to {default} if these are the tokens": (
            bool(got) and keys.get("token_column") is None
        ),
        f"all {len(tokens):,} tokens are one sentence; put a blank line after each sentence": (
            len(sentences) == 1 and len(tokens) > ALL_IN_ONE
        ),
        f"all tags are numbers ({_some(tags)}); {set_tags}": are_numbers,
        f"all {len(tokens):,} tags are {_some(tags)}, so there is nothing to learn; {set_tags}": (
            len(tags) == 1 and len(tokens) > 1 and not are_numbers
        ),
    }


def _about_spans(sentences: list[list[TaggedToken]]) -> Iterator[str]:
    """Yield which scheme fits tags that look like spans, in a config that names none."""
    found = [[token.tag for token in sentence] for sentence in sentences]
    tags = {*chain.from_iterable(found)}
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
    odd = (sentence[index] for sentence, index in zip(sentences, wrong[best], strict=True) if index is not None)
    if token := next(odd, None):
        message += f", except {token.tag!r} in line {token.row.line}"
    yield f"{message}: set {keys}, or 'coding_scheme' null if they are no spans"


def _check_conll2003(path: FilePath) -> None:
    """Raise `ConfigurationError` for columns at which AllenNLP's reader would raise a `ValueError`."""
    lines: list[str] = []
    with suppress(ConfigurationError, OSError):
        lines.extend(islice(lines_of(path, TAGGED_WORDS), JUDGED))
    for number, columns in enumerate(map(str.split, lines), 1):
        if columns and len(columns) != 4:
            got = f"{show_columns(columns)}; the reader 'column_tags' reads any number of columns"
            raise line_error(path, number, "four columns for AllenNLP's reader 'conll2003'", got)


def _instead_of_tokens(sentences: Sequence[Sequence[TaggedToken]]) -> str:
    """Return what is in the column of the tokens, or an empty string if it may be tokens."""
    tokens = [each.token for sentence in sentences for each in sentence]
    if len(tokens) < 3:
        return ""
    repeats = [len({each.token for each in sentence}) == 1 for sentence in sentences]
    found = {
        f"numbers or names with numbers ({_some(tokens)})": all(any(map(str.isdecimal, token)) for token in tokens),
        f"the same in all rows of a sentence ({_some(tokens)})": all(repeats) and max(map(len, sentences)) > 1,
        f"tags ({_some(tokens)})": all(map(SPAN_TAG.fullmatch, tokens)) and any("-" in token for token in tokens),
        "'#' at the beginning of each sentence (delete comments with as many columns as the rows)": (
            len(sentences) > 2 and all(sentence[0].token == "#" for sentence in sentences)
        ),
    }
    return next((what for what, is_so in found.items() if is_so), "")


def _about_labels(keys: Mapping[str, Any], may_have_header: bool, rows: list[LabelledText]) -> dict[str, bool]:
    """Return each doubt about the columns of labelled texts, and whether it is justified."""
    if len(rows) <= ROWS_PER_LABEL or rows[0].label is None:
        return {}
    first, *others = rows
    texts, labels = {row.text for row in others}, {row.label for row in others}
    n_repeated = len(others) // ROWS_PER_LABEL
    is_short = len(first.text.split()) <= 3 and 2 * sum(len(row.text) > len(first.text) for row in others) > len(others)
    are_swapped = len(texts) <= n_repeated
    but_texts = f", but only {len(texts):,} different texts" * are_swapped
    return {
        f"line {first.line} looks like a header, {first.label!r} and {first.text!r}; set 'has_header' true if they "
        "are names of columns, or false if they are a label and a text": (
            may_have_header and is_short and len(labels) <= n_repeated and first.label not in labels
        ),
        f"expected labels that many rows share, got {len(labels):,} in {len(others):,} rows ({_some(labels)})"
        f"{but_texts}; set 'label_column' to the column of the labels, or also 'text_columns' if this is right": (
            keys.get("text_columns") is None
            and 2 * len(labels) > len(others)
            and (are_swapped or len(others) >= ENOUGH)
        ),
    }


def _some(values: Any) -> str:
    """Return the first of the different values, shortened."""
    return some_of([repr(value[:30]) for value in dict.fromkeys(map(str, values))])
