"""AllenNLP's vocabulary beside a biLM that reads words: both must number the words alike."""

from typing import Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary

from elmo_plugin.checkpoints import Checkpoint
from elmo_plugin.checkpoints.word_table import BEGIN, END, UNKNOWN, with_boundary_ids
from elmo_plugin.options import BiLMOptions


def matching_namespaces(options: BiLMOptions, vocab: Optional[Vocabulary]) -> list[str]:
    """Return the namespaces of as many words as a biLM's table has rows; none if it reads characters.

    AllenNLP's name of unknown words may stand behind the words: it has no row, and the biLM rejects its id. Raises
    `ConfigurationError` if all namespaces have other sizes.
    """
    if vocab is None or not options.reads_words:
        return []
    rows = options.n_tokens_vocab or 0
    sizes = {namespace: vocab.get_vocab_size(namespace) for namespace in vocab.get_namespaces()}
    found = [
        namespace
        for namespace, size in sizes.items()
        if size == rows + 1
        or (size == rows + 2 and vocab.get_token_from_index(rows + 1, namespace) == vocab._oov_token)
    ]
    if sizes and not found:
        raise ConfigurationError(
            f"the biLM reads words, by a vocabulary of {rows} lines; found namespaces of other sizes, padding "
            f"included: {sizes}; wanted its own vocabulary file, see the README"
        )
    return sorted(found, key=lambda namespace: (namespace != "tokens", namespace))


def with_task_vocabulary(checkpoint: Checkpoint, vocab: Vocabulary) -> Checkpoint:
    """Check that a namespace has the words of a biLM that reads words, each with its id.

    If the biLM came without a vocabulary file, `<S>` and `</S>` are looked up in the namespace. Raises
    `ConfigurationError` where ids would be read as other words.
    """
    namespaces = matching_namespaces(checkpoint.options, vocab)
    if not namespaces:
        return checkpoint
    found = {namespace: _words(vocab, namespace) for namespace in namespaces}
    if checkpoint.vocabulary is None:
        return _with_boundaries_of(found, checkpoint)
    differences = [_first_difference(words, checkpoint.vocabulary) for words in found.values()]
    if None not in differences:
        id, word, own = next(difference for difference in differences if difference is not None)
        raise ConfigurationError(
            f"the biLM reads words, and the namespace '{namespaces[0]}' has others: of id {id} it has {word!r}, the "
            f"biLM has {own!r}; expected the biLM's own vocabulary file, see the README"
        )
    return checkpoint


def _with_boundaries_of(namespaces: dict[str, list[str]], checkpoint: Checkpoint) -> Checkpoint:
    for words in namespaces.values():
        if BEGIN in words and END in words:
            return with_boundary_ids((words.index(BEGIN) + 1, words.index(END) + 1), checkpoint)
    raise ConfigurationError(
        f"the biLM reads words, and no vocabulary says which are '{BEGIN}' and '{END}': expected a vocabulary.txt "
        f"beside its weights, or its own vocabulary file in place of the namespace '{next(iter(namespaces))}'"
    )


def _words(vocab: Vocabulary, namespace: str) -> list[str]:
    """The words of the ids from 1 on, as a vocabulary file has them; what stands for unknown words is `<UNK>`."""
    index = vocab.get_index_to_token_vocabulary(namespace)
    words = (index[id] for id in range(1, len(index)))
    return [UNKNOWN if word == vocab._oov_token else word for word in words]


def _first_difference(words: list[str], own: list[str]) -> Optional[tuple[int, str, str]]:
    """The first id at which they differ, and what either has there; a name behind an `own` without `<UNK>` is none."""
    if len(words) > len(own) and UNKNOWN in own:
        return len(words), words[-1], "no word"
    pairs = enumerate(zip(words, own, strict=False), 1)
    return next(((id, word, other) for id, (word, other) in pairs if word != other), None)
