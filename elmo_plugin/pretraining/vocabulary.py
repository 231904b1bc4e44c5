"""The words that a biLM predicts, counted in text or read from a file, as an AllenNLP `Vocabulary`, and their ids."""

import logging
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, filterfalse, islice
from pathlib import Path
from typing import Optional, final

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.tqdm import Tqdm
from allennlp.data import TextFieldTensors, Vocabulary
from allennlp.data.vocabulary import DEFAULT_OOV_TOKEN, DEFAULT_PADDING_TOKEN, NAMESPACE_PADDING_FILE
from more_itertools import spy
from torch import Tensor

from elmo_plugin.checkpoints import MARKS, Location, load_checkpoint, local_file, read_words
from elmo_plugin.common import at_least, atomic_folder
from elmo_plugin.text import (
    TOKENIZED,
    WHITE_SPACE,
    TextFile,
    check_language,
    find_shards,
    guess_language,
    look_at,
    split_tokens,
    word_to_ids,
)

logger = logging.getLogger(__name__)

BEGIN_ID, END_ID, UNKNOWN_ID = 1, 2, 3
"""The ids of the marks in the vocabulary of a language model."""
# When AllenNLP loads an archive, it looks for its own name for the unknown word.
_NAMES = [*MARKS[:2], DEFAULT_OOV_TOKEN]
# AllenNLP's names for padding and the unknown word, and what its vocabulary files write for a newline inside a word.
RESERVED = re.compile(f"{DEFAULT_PADDING_TOKEN}|{DEFAULT_OOV_TOKEN}|.*@@NEWLINE@@.*", re.DOTALL)
# Unicode's other spaces are allowed: the vocabulary files of other tools contain them as words.
BLANK = re.compile(r"\s", re.ASCII)
LANGUAGE = "language_tags"
"""The namespace whose only entry is the code of the language. AllenNLP pads no namespace whose name ends in `tags`."""
SHARDS_OF_A_LANGUAGE, LINES_OF_A_LANGUAGE = 5, 200
"""The shards, and the lines of each, from which the language is guessed."""
CACHED_WORDS = 2**18
"""The number of words whose character ids are cached. They take about 75 MB."""
MAX_CHARACTERS = 50
"""As in `elmo_characters`. The biLM fits the ids to its own width."""


def shard_lines(shard: Path) -> Iterator[str]:
    """Yield the lines of a shard that contain a token; `split_tokens` gives the tokens.

    Raises `ConfigurationError` if the shard cannot be read to its end, is not UTF-8, or contains no token.
    """
    _, lines = look_at(TextFile(shard).lines(), str(shard), TOKENIZED, quiet=True)
    first, sentences = spy(line for line in lines if line.strip(WHITE_SPACE))
    if not first:
        raise ConfigurationError(f"{shard}: expected one sentence per line, got no tokens")
    yield from sentences


def select_words(counts: Counter[str], min_count: int = 1, max_size: Optional[int] = None) -> list[str]:
    """Return the lines of a vocabulary file: the marks, then the words by falling count and by code point.

    `max_size` is the largest number of lines, including the marks. Marks in the text and tokens that AllenNLP reserves
    are not counted as words.
    """
    words = (word for word, count in counts.items() if count >= min_count and word not in MARKS)
    return [*MARKS, *sorted(filterfalse(RESERVED.fullmatch, words), key=lambda word: (-counts[word], word))][:max_size]


def vocabulary_of(words: list[str], place: Location = "vocabulary") -> "BiLMVocabulary":
    """Return the vocabulary of the lines of a vocabulary file: the marks, wherever they are, then the other words.

    The words are in the namespace `tokens`, with ids from 1, and the unknown word has AllenNLP's name. Raises
    `ConfigurationError`, naming `place`, if a mark is missing, or a line is not one word or occurs twice.
    """
    lines: dict[str, int] = {}
    for line, word in enumerate(words, 1):
        if not word or BLANK.search(word):
            raise ConfigurationError(f"'{place}', line {line}: expected one word, got {word[:50]!r}")
        if RESERVED.fullmatch(word):
            raise ConfigurationError(
                f"'{place}', line {line}: expected a word that AllenNLP does not reserve, got {word!r}"
            )
        if lines.setdefault(word, line) != line:
            raise ConfigurationError(
                f"'{place}', line {line}: expected each word once, got {word!r} as in line {lines[word]}"
            )
    missing = [mark for mark in MARKS if lines.pop(mark, None) is None]
    if missing:
        expected = f"expected a vocabulary with {', '.join(MARKS)}"
        raise ConfigurationError(f"'{place}': {expected}, got one without {', '.join(missing)}")
    vocab = BiLMVocabulary()
    # A new vocabulary starts with the unknown word as id 1.
    vocab.get_token_to_index_vocabulary().clear()
    vocab.get_index_to_token_vocabulary().clear()
    vocab.add_tokens_to_namespace([DEFAULT_PADDING_TOKEN, *_NAMES, *lines])
    return vocab


def words_of(vocab: Vocabulary) -> list[str]:
    """Return the lines of the vocabulary file for a vocabulary from `vocabulary_of`, or from an archive.

    Raises `ConfigurationError` for a vocabulary in another order, such as AllenNLP's default.
    """
    names = [vocab.get_token_from_index(index) for index in range(1, vocab.get_vocab_size())]
    if names[:3] != _NAMES:
        raise ConfigurationError(
            f"'vocabulary': expected the words to begin with {_NAMES}, got {names[:3]}; use the type 'text_shards', "
            "'bilm-tf' or 'pretrained_bilm'"
        )
    return [*MARKS, *names[3:]]


@final
@Vocabulary.register("text_shards", constructor="from_text_shards")
@Vocabulary.register("bilm-tf", constructor="from_bilm_tf")
@Vocabulary.register("pretrained_bilm", constructor="from_pretrained_bilm")
class BiLMVocabulary(Vocabulary):
    """A vocabulary for pretraining. It is made from files, because AllenNLP would hold the instances of a whole corpus.

    Registered as a `Vocabulary` with names `text_shards` (`from_text_shards`), `bilm-tf` (`from_bilm_tf`) and
    `pretrained_bilm` (`from_pretrained_bilm`).

        vocabulary: { type: 'text_shards', files: 'corpus/train-*.txt.gz', min_count: 3, max_size: 800000 },

    >>> vocab = BiLMVocabulary.from_pretrained_bilm("english-tiny", files="unused")
    >>> [vocab.get_token_index(word) for word in ("<S>", "</S>", "never-seen")]
    [1, 2, 3]
    """

    @classmethod
    def from_text_shards(
        cls, files: str, min_count: int = 1, max_size: Optional[int] = None, language: Optional[str] = None
    ) -> "BiLMVocabulary":
        """Count the words of text shards, and keep the most frequent ones.

        # Parameters

        files : a path or a pattern of text shards
        min_count : leave out words that occur less often
        max_size : the number of words to keep, including the marks; null keeps all
        language : the code of the language, such as `de`, in which the biLM will tokenize raw text; the default is
            guessed from the text and printed
        """
        at_least(1, min_count=min_count)
        at_least(len(MARKS), max_size=max_size)
        if language is not None:
            check_language(language)
        shards = find_shards(files)
        lines = Tqdm.tqdm(chain.from_iterable(map(shard_lines, shards)), desc="counting words", unit=" sentences")
        counts = Counter(chain.from_iterable(map(split_tokens, lines)))
        vocab = vocabulary_of(select_words(counts, min_count, max_size))
        if language is None:
            some = random.Random(0).sample(shards, min(len(shards), SHARDS_OF_A_LANGUAGE))
            first_lines = chain.from_iterable(islice(shard_lines(shard), LINES_OF_A_LANGUAGE) for shard in some)
            language, certainty = guess_language(" ".join(first_lines))
            logger.warning(
                "the text is in the language %r (%.2f sure); set 'vocabulary.language' if it is another",
                language,
                certainty,
            )
        vocab.add_token_to_namespace(language, LANGUAGE)
        return vocab

    @classmethod
    def from_bilm_tf(cls, file: str) -> Vocabulary:
        r"""Read a bilm-tf vocabulary file, whose lines end with `\n` or `\r\n`. The marks may be anywhere in it.

        # Parameters

        file : a path or URL
        """
        return vocabulary_of(read_words(local_file(file, "file"), file), file)

    @classmethod
    def from_pretrained_bilm(
        cls, pretrained: str, files: str, min_count: int = 1, max_size: Optional[int] = None
    ) -> Vocabulary:
        """Use a biLM's own vocabulary, to fine-tune its softmax. If it has none, count the words of text shards.

        The marks come first, wherever they are in the biLM's own vocabulary.

        # Parameters

        pretrained : the biLM: a path, a URL or a bundled name
        files, min_count, max_size : as in `from_text_shards`, for a biLM without a vocabulary
        """
        at_least(1, min_count=min_count)
        at_least(len(MARKS), max_size=max_size)
        words = load_checkpoint(pretrained).vocabulary
        return cls.from_text_shards(files, min_count, max_size) if words is None else vocabulary_of(words, pretrained)

    def save_to_files(self, directory: str) -> None:
        """Write the words as AllenNLP does, but all files or none: after a kill, distributed training reads them."""
        with atomic_folder(Path(directory), last=NAMESPACE_PADDING_FILE) as partial:
            super().save_to_files(str(partial))


def language_in(vocab: Vocabulary) -> Optional[str]:
    """Return the language that a vocabulary says it is of, or `None`."""
    languages = vocab.get_token_to_index_vocabulary(LANGUAGE) if LANGUAGE in vocab.get_namespaces() else {}
    return next(iter(languages), None)


class WordIds:
    """Looks words up in a biLM's vocabulary, and converts them to bilm-tf's character ids.

    A literal `<S>` or `</S>` in a text is a sentence boundary, as in bilm-tf. A literal `<UNK>` is the unknown word.

    # Parameters

    vocab : `Vocabulary`
        Its namespace `tokens` has bilm-tf's order: `<S>` is 1, `</S>` is 2, the unknown word is 3.
    """

    def __init__(self, vocab: Vocabulary) -> None:
        self._index = vocab.get_token_to_index_vocabulary()

    def of_sentences(self, sentences: Sequence[Sequence[str]]) -> TextFieldTensors:
        """Return the ids (B, T, C) and (B, T) of B sentences, in the form of a batch of `text_shards` instances."""
        width = max(map(len, sentences), default=0)  # T
        return {
            "characters": {"elmo_tokens": self.characters(sentences, width)},
            "words": {"tokens": self.words(sentences, width)},
        }

    def words(self, rows: Sequence[Sequence[str]], width: int) -> Tensor:
        """Return the vocabulary ids (B, T) of B rows of at most T = `width` words, padded with 0."""
        # `or`: the padding token of AllenNLP has id 0, but in a text it is an unknown word.
        ids = [[self._index.get(word) or UNKNOWN_ID for word in row] + [0] * (width - len(row)) for row in rows]
        return torch.tensor(ids, dtype=torch.long).view(len(rows), width)

    def characters(self, rows: Sequence[Sequence[str]], width: int) -> Tensor:
        """Return the character ids (B, T, C) of B rows of at most T = `width` words, padded with 0."""
        ids = b"".join(b"".join(map(_character_ids, row)).ljust(2 * MAX_CHARACTERS * width, b"\0") for row in rows)
        numbers = np.frombuffer(ids, np.int16).astype(np.int64)
        return torch.from_numpy(numbers).view(len(rows), width, MAX_CHARACTERS)  # (B, T, C)


@lru_cache(CACHED_WORDS)
def _character_ids(word: str) -> bytes:
    """Return 16-bit ids (C,) as bytes: cached small arrays would fragment the memory that batches are allocated in."""
    return np.array(word_to_ids(word, MAX_CHARACTERS), dtype=np.int16).tobytes()
