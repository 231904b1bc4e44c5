"""Which row of a word-input biLM's table is which word, as a vocabulary file says it."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.checkpoints.checkpoint_format import Checkpoint

BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"
TABLE = "token_encoder.embedding.weight"


class WordIds:
    """Looks words up in a vocabulary file: the first line is id 1. Of a word that stands twice the last line counts.

    bilm-tf's `Vocabulary` in `data.py` does the same, but masks an unknown word where the file has no `<UNK>`.

    # Parameters

    words : `Sequence[str]`
        The lines.
    name : `str`
        What errors call the biLM.
    """

    def __init__(self, words: Sequence[str], name: str) -> None:
        self._ids = {word: line for line, word in enumerate(words, 1)}
        self._name = name

    def __call__(self, word: str) -> int:
        """Return the id of a word, that of `<UNK>` for an unknown one. Raises `ConfigurationError` if there is none."""
        id = self._ids.get(word, self._ids.get(UNKNOWN))
        if id is None:
            raise ConfigurationError(
                f"'{self._name}': the word {word!r} is not in its vocabulary, which has no {UNKNOWN} for unknown words"
            )
        return id


def with_vocabulary(checkpoint: Checkpoint, words: list[str], name: str) -> Checkpoint:
    """Add the lines of a vocabulary file; where the biLM reads words, look `<S>` and `</S>` up in them.

    Raises `ConfigurationError`, calling the file by `name`, if its lines are not the rows of the table.
    """
    rows = checkpoint.options.n_tokens_vocab
    if not checkpoint.options.reads_words:
        return checkpoint._replace(vocabulary=words)
    if len(words) != rows:
        raise ConfigurationError(
            f"'{name}': expected a vocabulary of {rows} words, as many as the biLM's table has rows, got {len(words)}"
        )
    ids = {word: line for line, word in enumerate(words, 1)}
    for boundary in (BEGIN, END):
        if boundary not in ids:
            raise ConfigurationError(
                f"'{name}': the vocabulary has no '{boundary}', which the biLM reads at each sentence"
            )
    return with_boundary_ids((ids[BEGIN], ids[END]), checkpoint)._replace(vocabulary=words)


def in_order_of(words: list[str], checkpoint: Checkpoint) -> Checkpoint:
    """Put the table of a word-input biLM into the order of `words`, if its own order is known.

    Raises `ConfigurationError` if its own words are others.
    """
    if not checkpoint.options.reads_words or checkpoint.vocabulary in (None, words):
        return checkpoint
    assert checkpoint.vocabulary is not None
    ids = {word: line for line, word in enumerate(checkpoint.vocabulary, 1)}
    others = next((word for word in words if word not in ids), None)
    if others is not None or len(words) != len(ids):
        raise ConfigurationError(
            f"'bilm' reads {len(ids)} words, which are not the {len(words)} of the vocabulary"
            + (f": it has no {others!r}" if others is not None else "")
            + "; expected a vocabulary of type 'pretrained_bilm'"
        )
    order = torch.tensor([0, *(ids[word] for word in words)])  # row 0 is masked
    state_dict = {**checkpoint.state_dict, TABLE: checkpoint.state_dict[TABLE][order]}
    reordered = checkpoint._replace(state_dict=state_dict, vocabulary=words)
    return with_boundary_ids((words.index(BEGIN) + 1, words.index(END) + 1), reordered)


def with_boundary_ids(boundary_ids: tuple[int, int], checkpoint: Checkpoint) -> Checkpoint:
    """Say which rows of a word-input biLM's table are `<S>` and `</S>`."""
    # A state dict from an archive describes itself with the ids that it had before.
    state_dict = {name: value for name, value in checkpoint.state_dict.items() if name != "_extra_state"}
    return checkpoint._replace(options=replace(checkpoint.options, boundary_ids=boundary_ids), state_dict=state_dict)
