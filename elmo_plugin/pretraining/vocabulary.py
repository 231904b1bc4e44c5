"""The words that a biLM predicts: counted in text shards, kept in bilm-tf's file, used as AllenNLP's Vocabulary."""

import re
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Optional, final

from allennlp.common.checks import ConfigurationError
from allennlp.common.tqdm import Tqdm
from allennlp.data import Vocabulary
from allennlp.data.vocabulary import DEFAULT_OOV_TOKEN, DEFAULT_PADDING_TOKEN

from elmo_plugin.checkpoints import Location, load_checkpoint, local_file, read_words
from elmo_plugin.config_keys import at_least
from elmo_plugin.pretraining.shards import find_shards, read_lines

MARKS = ["<S>", "</S>", "<UNK>"]
"""The first lines of the file: begin of a sentence, its end, unknown word. Source: bilm-tf's README on training."""
BEGIN_ID, END_ID, UNKNOWN_ID = 1, 2, 3
"""The ids of the marks in a vocabulary that a language model is trained with."""
# The marks in an AllenNLP vocabulary: on loading an archive it looks for its own name of the unknown word.
_NAMES = [*MARKS[:2], DEFAULT_OOV_TOKEN]
_WANTED = ", ".join(MARKS)
# AllenNLP's own padding and unknown word, and what its files write for a line end, wherever in a word it stands.
RESERVED = re.compile(f"{DEFAULT_PADDING_TOKEN}|{DEFAULT_OOV_TOKEN}|.*@@NEWLINE@@.*", re.DOTALL)
# Not Unicode's other spaces: files made by other tools do hold them as words, and each has its id.
BLANK = re.compile(r"\s", re.ASCII)


def count_words(shards: list[Path]) -> Counter[str]:
    """How often each token occurs in the shards, which are read line by line."""
    counts: Counter[str] = Counter()
    lines = chain.from_iterable(map(read_lines, shards))
    for line in Tqdm.tqdm(lines, desc="counting words", unit=" sentences"):
        counts.update(line.split())
    return counts


def select_words(counts: Counter[str], min_count: int = 1, max_size: Optional[int] = None) -> list[str]:
    """The lines of a vocabulary file: the marks, then words by falling count, those of one count by themselves.

    `max_size` is the number of lines, the three marks included. A literal mark in the text is no word, nor is a
    token that AllenNLP's vocabulary keeps for itself. Raises `ConfigurationError` for sizes that no file can have.
    """
    _check_sizes(min_count, max_size)
    often = (word for word, count in counts.items() if count >= min_count)
    words = (word for word in often if word not in MARKS and not RESERVED.fullmatch(word))
    return [*MARKS, *sorted(words, key=lambda word: (-counts[word], word))][:max_size]


def read_vocabulary_file(path: Location) -> list[str]:
    """The lines of a bilm-tf vocabulary file, from a path or URL.

    Raises `ConfigurationError` naming file and line for a file that is not UTF-8, that does not begin with the
    marks, or that has a line twice, an empty line, or a line of more than a word. A line ends at `\\n` or `\\r\\n`.
    """
    words = read_words(local_file(path, "file"), str(path))
    _check(words, path)
    return words


def vocabulary_of(words: list[str]) -> Vocabulary:
    """AllenNLP's vocabulary of these lines, in the namespace "tokens": the id of a word is its line, from 1.

    The unknown word goes by AllenNLP's name for it. Raises `ConfigurationError` for lines that are no vocabulary,
    as `read_vocabulary_file` does.
    """
    _check(words, "the list of words")
    vocab = Vocabulary()
    # Both come with the unknown word as number 1.
    vocab.get_token_to_index_vocabulary().clear()
    vocab.get_index_to_token_vocabulary().clear()
    vocab.add_tokens_to_namespace([DEFAULT_PADDING_TOKEN, *_NAMES, *words[3:]])
    return vocab


def words_of(vocab: Vocabulary) -> list[str]:
    """The lines of a vocabulary file, from `vocabulary_of` them or from an archive.

    Raises `ConfigurationError` for a vocabulary of another order, which AllenNLP makes unless told otherwise.
    """
    names = [vocab.get_token_from_index(index) for index in range(1, vocab.get_vocab_size())]
    if names[:3] != _NAMES:
        raise ConfigurationError(
            f"the vocabulary's words begin with {names[:3]}; wanted {_NAMES}: "
            "a 'vocabulary' of type 'text_shards' or 'bilm-tf'"
        )
    return [*MARKS, *names[3:]]


@final
@Vocabulary.register("text_shards", constructor="from_text_shards")
@Vocabulary.register("bilm-tf", constructor="from_bilm_tf")
@Vocabulary.register("pretrained_bilm", constructor="from_pretrained_bilm")
class BiLMVocabulary(Vocabulary):
    """A vocabulary for pretraining, made from files and not from instances: these would be the whole corpus.

    Registered as a `Vocabulary` with names `text_shards` (`from_text_shards`), `bilm-tf` (`from_bilm_tf`) and
    `pretrained_bilm` (`from_pretrained_bilm`).
    """

    @classmethod
    def from_text_shards(cls, files: str, min_count: int = 1, max_size: Optional[int] = None) -> Vocabulary:
        """The words of the shards that the pattern `files` names, selected as by `select_words`."""
        return vocabulary_of(select_words(count_words(find_shards(files)), min_count, max_size))

    @classmethod
    def from_bilm_tf(cls, file: str) -> Vocabulary:
        """The words of a vocabulary file, read as by `read_vocabulary_file`."""
        return vocabulary_of(read_vocabulary_file(file))

    @classmethod
    def from_pretrained_bilm(
        cls, pretrained: str, files: str, min_count: int = 1, max_size: Optional[int] = None
    ) -> Vocabulary:
        """The words that a biLM was trained with, to go on with its softmax; those of the shards if it holds none.

        The marks come first, wherever the biLM's own vocabulary has them.
        """
        _check_sizes(min_count, max_size)
        words = load_checkpoint(pretrained).vocabulary
        if words is None:
            return cls.from_text_shards(files, min_count, max_size)
        missing = [mark for mark in MARKS if mark not in words]
        if missing:
            raise ConfigurationError(
                f"'{pretrained}': expected {_WANTED} in its vocabulary, got none of {', '.join(missing)}"
            )
        return vocabulary_of([*MARKS, *(word for word in words if word not in MARKS)])


def _check_sizes(min_count: int, max_size: Optional[int]) -> None:
    at_least(1, min_count=min_count)
    at_least(len(MARKS), max_size=max_size)  # it counts them


def _check(words: list[str], place: Location) -> None:
    if words[:3] != MARKS:
        raise ConfigurationError(f"{place}: the first lines are {words[:3]}; wanted {_WANTED}, one a line")
    lines: dict[str, int] = {}
    for line, word in enumerate(words, 1):
        if not word or BLANK.search(word):
            raise _line_error(place, line, repr(word[:50]), "one word")
        if RESERVED.fullmatch(word):
            raise _line_error(place, line, repr(word), "a word that AllenNLP's vocabulary does not keep for itself")
        if lines.setdefault(word, line) != line:
            raise _line_error(place, line, f"{word!r}, as in line {lines[word]}", "each word once")


def _line_error(place: Location, line: int, found: str, wanted: str) -> ConfigurationError:
    return ConfigurationError(f"{place}, line {line}: found {found}; wanted {wanted}")
