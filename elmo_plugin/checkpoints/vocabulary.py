"""Vocabulary files, one word per line, and the ids of the words that a word-input biLM reads.

The word in line i has the id i and row i of the biLM's table of word vectors. Row 0 belongs to the masked id.
"""

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary

from elmo_plugin.checkpoints.confined import ALLOWANCE, GROWTH
from elmo_plugin.checkpoints.files import Checkpoint, FileKind, file_kind
from elmo_plugin.common import installed

VOCABULARY = "vocabulary.txt"
"""The name of the vocabulary file that we write beside the weights."""
VOCABULARIES = (VOCABULARY, "vocab.txt", f"{VOCABULARY}.gz", "vocab.txt.gz")
"""The names of vocabulary files that we read beside the weights."""
MARKS = ["<S>", "</S>", "<UNK>"]
"""The first lines of a vocabulary file: sentence begin, sentence end, unknown word (bilm-tf's README)."""
BEGIN, END, UNKNOWN = MARKS
TABLE = "token_encoder.embedding.weight"
MOST_TEXT, MOST_LINES = 2**25, 2**21
"""The bytes and the lines of the largest vocabulary. A million words take about ten megabytes."""


def split_lines(text: str, name: str) -> list[str]:
    """Return the lines of a vocabulary, whose last one may have a line end.

    Raises `ConfigurationError`, which calls the file `name`, if there are too many.
    """
    if text.count("\n") > MOST_LINES:
        raise ConfigurationError(f"'{name}': expected at most {MOST_LINES:,} lines, got more")
    return text.removesuffix("\n").split("\n")


def read_words(path: Path, name: str) -> list[str]:
    r"""Return the lines of a vocabulary file exactly as they are; only `\n` and `\r\n` end a line.

    The file may be compressed with gzip. Errors call it `name`. Raises `ConfigurationError` if it cannot be read, is
    too large, or is not UTF-8 text.
    """
    kind = file_kind(path)
    is_gzip = kind is FileKind.GZIP
    if kind in (FileKind.FOLDER, FileKind.DEVICE, FileKind.XZ):
        raise ConfigurationError(f"'{name}': expected a text file, got {kind.value}")
    try:
        most = min(MOST_TEXT, GROWTH * path.stat().st_size + ALLOWANCE) if is_gzip else MOST_TEXT
        with gzip.open(path) if is_gzip else path.open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise ConfigurationError(f"'{name}': expected at most {most:,} bytes of text, got more")
        text = content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        lines = content[: error.start].count(b"\n")
        raise ConfigurationError(f"'{name}', line {lines + 1}: expected UTF-8 text, got {error}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigurationError(f"'{name}' cannot be read: {error}") from error
    return [line.removesuffix("\r") for line in split_lines(text, name)] if text else []


class WordLookup:
    """Look up the ids of words. The first line of the vocabulary has id 1; of a repeated word the last line counts.

    bilm-tf's `Vocabulary` in `data.py` does the same, but masks unknown words if the file has no `<UNK>`.
    Errors call the biLM `name`.

    >>> word_id = WordLookup(["<S>", "</S>", "<UNK>", "cat"], "my_bilm")
    >>> word_id("cat"), word_id("dog")
    (4, 3)
    """

    def __init__(self, words: Sequence[str], name: str) -> None:
        self.words = list(words)
        self._ids = {word: id for id, word in enumerate(words, 1)}
        self._name = name

    def __call__(self, word: str) -> int:
        """Return the id of a word, or else of `<UNK>`. Raises `ConfigurationError` if there is no `<UNK>` either."""
        id = self._ids.get(word, self._ids.get(UNKNOWN))
        if id is None:
            raise ConfigurationError(
                f"'{self._name}': the word {word!r} is not in its vocabulary, which has no {UNKNOWN} for unknown words"
            )
        return id


def with_vocabulary(checkpoint: Checkpoint, words: list[str], name: str) -> Checkpoint:
    """Add the lines of a vocabulary file. For a biLM that reads words, also look up the ids of `<S>` and `</S>`.

    Errors call the file `name`. Raises `ConfigurationError` if its lines do not fit the rows of the table.
    """
    if not checkpoint.options.reads_words:
        return checkpoint._replace(vocabulary=words)
    rows = checkpoint.options.n_tokens_vocab
    if len(words) != rows:
        raise ConfigurationError(f"'{name}': expected {rows} words, one per row of the biLM's table, got {len(words)}")
    missing = [boundary for boundary in (BEGIN, END) if boundary not in words]
    if missing:
        raise ConfigurationError(
            f"'{name}': expected '{missing[0]}' in the vocabulary, which the biLM reads at every sentence boundary"
        )
    return _with_words(checkpoint, words)


def in_order_of(words: list[str], checkpoint: Checkpoint) -> Checkpoint:
    """Reorder the table of a word-input biLM to the order of `words`, if the vocabulary of the biLM is known.

    Raises `ConfigurationError` if the vocabulary has other words.
    """
    if not checkpoint.options.reads_words or checkpoint.vocabulary is None or checkpoint.vocabulary == words:
        return checkpoint
    ids = {word: id for id, word in enumerate(checkpoint.vocabulary, 1)}
    others = [word for word in words if word not in ids]
    if others or len(words) != len(ids):
        raise ConfigurationError(
            f"'bilm': expected a vocabulary of the {len(ids)} words that it reads, got {len(words)} words"
            + (f", among them {others[0]!r}, which it does not read" if others else "")
            + "; use a vocabulary of type 'pretrained_bilm'"
        )
    order = torch.tensor([0, *(ids[word] for word in words)])
    state_dict = {**checkpoint.state_dict, TABLE: checkpoint.state_dict[TABLE][order]}
    return _with_words(checkpoint._replace(state_dict=state_dict), words)


def with_task_vocabulary(checkpoint: Checkpoint, vocab: Vocabulary) -> Checkpoint:
    """Check that AllenNLP's vocabulary gives each word of a word-input biLM the id that the biLM expects.

    AllenNLP's name for unknown words may follow the words: it has no row, and the biLM rejects its id. If the
    checkpoint has no vocabulary, the ids of `<S>` and `</S>` are looked up in AllenNLP's. Raises `ConfigurationError`
    if no namespace has the words.
    """
    rows, own, namespaces = checkpoint.options.n_tokens_vocab, checkpoint.vocabulary, list(vocab.get_namespaces())
    if not checkpoint.options.reads_words or not namespaces:
        return checkpoint
    for namespace in namespaces:
        index = vocab.get_index_to_token_vocabulary(namespace)
        words = [index[id] for id in range(1, len(index))]
        words = [UNKNOWN if word == vocab._oov_token else word for word in words]
        if own is not None and words in (own, [*own, UNKNOWN]):
            return checkpoint
        if own is None and len(words) == rows and BEGIN in words and END in words:
            return _with_words(checkpoint, words)
    raise ConfigurationError(
        f"'vocabulary': expected a namespace with the {rows} words that the biLM reads, in their order and with "
        f"'{BEGIN}' and '{END}', got {', '.join(sorted(namespaces))}; use the biLM's own vocabulary file, see "
        f"{installed('docs/guides/files.md')}"
    )


def _with_words(checkpoint: Checkpoint, words: list[str]) -> Checkpoint:
    """Add the vocabulary of a word-input biLM, and the ids of `<S>` and `</S>` in it."""
    ids = {word: id for id, word in enumerate(words, 1)}
    options = replace(checkpoint.options, boundary_ids=(ids[BEGIN], ids[END]))
    return checkpoint._replace(options=options, vocabulary=words)
