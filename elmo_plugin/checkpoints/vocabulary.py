"""Vocabulary files, one word per line, and the ids of the words that a word-input biLM reads.

The word in line i has the id i and row i of the biLM's table of word vectors. Row 0 belongs to the masked id.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Optional

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary

from elmo_plugin.bilm import BiLMOptions
from elmo_plugin.checkpoints.checkpoint_format import Checkpoint
from elmo_plugin.checkpoints.untrusted import read_text
from elmo_plugin.common import atomic_file

VOCABULARY = "vocabulary.txt"
"""The name of the vocabulary file that we write beside the weights."""
VOCABULARIES = (VOCABULARY, "vocab.txt", f"{VOCABULARY}.gz", "vocab.txt.gz")
"""The names of vocabulary files that we read beside the weights."""
BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"
TABLE = "token_encoder.embedding.weight"


def read_words(path: Path, name: str) -> list[str]:
    r"""Return the lines of a vocabulary file exactly as they are; only `\n` and `\r\n` end a line.

    The file may be compressed with gzip. Errors call it `name`; see `read_text`.
    """
    text = read_text(path, name)
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def write_words(words: Iterable[str], path: Path) -> None:
    """Write one word per line, and replace an existing file atomically."""
    with atomic_file(path) as partial:
        partial.write_bytes("".join(f"{word}\n" for word in words).encode())


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
    ids = {word: id for id, word in enumerate(words, 1)}
    missing = [boundary for boundary in (BEGIN, END) if boundary not in ids]
    if missing:
        raise ConfigurationError(
            f"'{name}': expected '{missing[0]}' in the vocabulary, which the biLM reads at every sentence boundary"
        )
    return _with_boundary_ids(checkpoint, ids[BEGIN], ids[END])._replace(vocabulary=words)


def in_order_of(words: list[str], checkpoint: Checkpoint) -> Checkpoint:
    """Reorder the table of a word-input biLM to the order of `words`, if the vocabulary of the biLM is known.

    Raises `ConfigurationError` if the vocabulary has other words.
    """
    if not checkpoint.options.reads_words or checkpoint.vocabulary in (None, words):
        return checkpoint
    assert checkpoint.vocabulary is not None
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
    reordered = checkpoint._replace(state_dict=state_dict, vocabulary=words)
    return _with_boundary_ids(reordered, words.index(BEGIN) + 1, words.index(END) + 1)


def matching_namespaces(options: BiLMOptions, vocab: Optional[Vocabulary]) -> list[str]:
    """Return the namespaces of AllenNLP's vocabulary that are as large as a word-input biLM's, `tokens` first.

    AllenNLP's name for unknown words may follow the words: it has no row, and the biLM rejects its id. For a biLM that
    reads characters the list is empty. Raises `ConfigurationError` if no namespace has the right size.
    """
    if vocab is None or not options.reads_words:
        return []
    rows = options.n_tokens_vocab or 0
    sizes = {namespace: vocab.get_vocab_size(namespace) for namespace in vocab.get_namespaces()}
    matching = [
        namespace
        for namespace, size in sizes.items()
        if size == rows + 1
        or (size == rows + 2 and vocab.get_token_from_index(rows + 1, namespace) == vocab._oov_token)
    ]
    if sizes and not matching:
        raise ConfigurationError(
            f"'vocabulary': expected a namespace of {rows + 1} entries, the words that the biLM reads and the padding, "
            f"got {sizes}; use the biLM's own vocabulary file (docs/guides/files.md)"
        )
    return sorted(matching, key=lambda namespace: (namespace != "tokens", namespace))


def with_task_vocabulary(checkpoint: Checkpoint, vocab: Vocabulary) -> Checkpoint:
    """Check that AllenNLP's vocabulary gives each word of a word-input biLM the id that the biLM expects.

    If the checkpoint has no vocabulary, the ids of `<S>` and `</S>` are looked up in AllenNLP's. Raises
    `ConfigurationError` if the biLM would read ids as other words.
    """
    namespaces = {name: _words(vocab, name) for name in matching_namespaces(checkpoint.options, vocab)}
    if not namespaces:
        return checkpoint
    first = next(iter(namespaces))
    if checkpoint.vocabulary is None:
        for words in namespaces.values():
            if BEGIN in words and END in words:
                return _with_boundary_ids(checkpoint, words.index(BEGIN) + 1, words.index(END) + 1)
        raise ConfigurationError(
            f"'vocabulary', namespace '{first}': expected the words that the biLM reads, including '{BEGIN}' and "
            f"'{END}'; put a {VOCABULARY} beside the weights or use the biLM's own vocabulary file"
        )
    differences = [_first_difference(words, checkpoint.vocabulary) for words in namespaces.values()]
    if None not in differences:
        raise ConfigurationError(
            f"'vocabulary', namespace '{first}', {differences[0]}; the biLM reads words, use its own vocabulary file, "
            "see docs/guides/files.md"
        )
    return checkpoint


def _words(vocab: Vocabulary, namespace: str) -> list[str]:
    """Return the words in the order of their ids from 1 on, with `<UNK>` for AllenNLP's name for unknown words."""
    index = vocab.get_index_to_token_vocabulary(namespace)
    words = (index[id] for id in range(1, len(index)))
    return [UNKNOWN if word == vocab._oov_token else word for word in words]


def _first_difference(words: list[str], own: list[str]) -> Optional[str]:
    """Describe the first id at which a namespace differs from the biLM's `own` words; `None` if it fits.

    A name for unknown words may follow the words if the biLM's own have none.
    """
    for id, (word, expected) in enumerate(zip(words, own, strict=False), 1):
        if word != expected:
            return f"id {id}: expected {expected!r}, got {word!r}"
    is_extra = len(words) > len(own) and UNKNOWN in own
    return f"id {len(words)}: expected no word, got {words[-1]!r}" if is_extra else None


def _with_boundary_ids(checkpoint: Checkpoint, begin: int, end: int) -> Checkpoint:
    """Set the ids of `<S>` and `</S>` of a word-input biLM."""
    return checkpoint._replace(options=replace(checkpoint.options, boundary_ids=(begin, end)))
