"""Text shards: one tokenized sentence per line, plain, .gz or .xz, read in constant memory and from any position."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, count, islice
from pathlib import Path
from random import Random
from typing import Optional, Union, final

from allennlp.common.checks import ConfigurationError
from allennlp.common.tqdm import Tqdm
from allennlp.data import DatasetReader, Instance, Token, TokenIndexer
from allennlp.data.fields import TextField
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer, SingleIdTokenIndexer

from elmo_plugin.common import at_least
from elmo_plugin.text import WHITE_SPACE, TextFile, as_tokens, find_shards, split_tokens

BLOCK = 65536
"""The number of sentences that are shuffled together, and the most that a reader holds in memory."""
Position = tuple[int, int]
"""A position in a pass: the number of finished shards, and the number of sentences read from the current shard."""

logger = logging.getLogger(__name__)


def shard_lines(shard: Path) -> Iterator[str]:
    """Yield the lines of a shard that contain a token; `split_tokens` gives the tokens.

    Raises `ConfigurationError` if the shard cannot be read to its end, is not UTF-8, or contains no token.
    """
    is_empty = True
    for line in TextFile(shard).lines():
        if line.strip(WHITE_SPACE):
            is_empty = False
            yield line
    if is_empty:
        raise ConfigurationError(f"{shard}: expected one sentence per line, got no tokens")


def split_sentences(sentences: Iterable[list[str]], length: Optional[int], source: str) -> Iterator[list[str]]:
    """Yield sentences in pieces of at most `length` tokens (`None`: whole). The first one that is split is logged."""
    is_logged = False
    for tokens in sentences:
        if length is None or len(tokens) <= length:
            yield tokens
            continue
        if not is_logged:
            message = "'%s': sentences of more than %d tokens (max_sentence_length), such as one of %d, are split"
            logger.warning(message, source, length, len(tokens))
            is_logged = True
        for start in range(0, len(tokens), length):
            yield tokens[start : start + length]


@final
class SentenceStream:
    """Reads the sentences of a corpus in passes. The order of each pass is reproducible.

    With `shuffle`, each pass reads the shards in another order, and shuffles the sentences of a shard in blocks of
    `BLOCK`. A reader therefore holds one block in memory, and rereads at most one shard to resume.
    """

    def __init__(self, shards: list[Path], shuffle: bool, seed: int = 0) -> None:
        self.shards = shards
        self.shuffle = shuffle
        self.seed = seed

    def passes(
        self, epoch: int = 0, position: Position = (0, 0)
    ) -> Iterator[tuple[int, Position, Iterator[tuple[list[str], Position]]]]:
        """Yield the rest of a pass, and with `shuffle` endless later passes: epoch, start position and sentences."""
        yield epoch, position, self.sentences(epoch, position)
        if self.shuffle:
            for later in count(epoch + 1):
                yield later, (0, 0), self.sentences(later)

    def sentences(self, epoch: int, start: Position = (0, 0)) -> Iterator[tuple[list[str], Position]]:
        """Yield the tokens of each sentence of a pass from `start` on, with the position after the sentence."""
        order = list(range(len(self.shards)))
        if self.shuffle:
            Random(f"{self.seed} {epoch}").shuffle(order)  # the hash of a string is the same in every process
        finished, skipped = start
        for index, shard in enumerate(order[finished:], finished):
            for read, line in enumerate(self._lines(epoch, shard, skipped), skipped + 1):
                yield split_tokens(line), (index, read)
            skipped = 0

    @cached_property
    def tokens_per_pass(self) -> int:
        """The number of tokens that one direction predicts in a pass: all words, and one boundary per sentence.

        The first access reads the whole corpus.
        """
        lines = chain.from_iterable(map(shard_lines, self.shards))
        return sum(len(split_tokens(line)) + 1 for line in Tqdm.tqdm(lines, desc="counting tokens", unit=" sentences"))

    def _lines(self, epoch: int, shard: int, skipped: int) -> Iterator[str]:
        lines = shard_lines(self.shards[shard])
        if not self.shuffle:
            yield from islice(lines, skipped, None)
            return
        first_block, skipped = divmod(skipped, BLOCK)
        lines = islice(lines, first_block * BLOCK, None)
        for number in count(first_block):
            block = list(islice(lines, BLOCK))
            if not block:
                return
            Random(f"{self.seed} {epoch} {shard} {number}").shuffle(block)
            yield from islice(block, skipped, None)
            skipped = 0


@DatasetReader.register("text_shards")
class TextShardsReader(DatasetReader):
    """Reads sentences from the files that a pattern matches: one tokenized sentence per line, plain, .gz or .xz.

    Each `Instance` has the field `tokens` (`TextField`). Raises `ConfigurationError`, naming the file, for a file that
    cannot be read.

    Registered as a `DatasetReader` with name `text_shards`.

    ```jsonnet
    dataset_reader: { type: 'text_shards' },
    train_data_path: 'corpus/train-*.txt.gz',
    ```

    # Parameters

    token_indexers : `Dict[str, TokenIndexer]`, optional
        The default is `characters` (`ELMoTokenCharactersIndexer`), which a biLM reads, and `words`
        (`SingleIdTokenIndexer`), which it predicts.
    max_sentence_length : `Optional[int]`, optional (default = `400`)
        A longer sentence is split into instances of this many tokens, with a warning, so that no line can exhaust
        memory. Null never splits.
    max_instances, serialization_dir
        As in `DatasetReader`.
    """

    def __init__(
        self,
        token_indexers: Optional[dict[str, TokenIndexer]] = None,
        max_sentence_length: Optional[int] = 400,
        max_instances: Optional[int] = None,
        serialization_dir: Optional[str] = None,
    ) -> None:
        at_least(1, max_sentence_length=max_sentence_length)
        at_least(0, max_instances=max_instances)
        super().__init__(
            max_instances=max_instances,
            manual_distributed_sharding=True,
            manual_multiprocess_sharding=True,
            serialization_dir=serialization_dir,
        )
        self._token_indexers = token_indexers or {
            "characters": ELMoTokenCharactersIndexer(),
            "words": SingleIdTokenIndexer(),
        }
        self._max_sentence_length = max_sentence_length

    def text_to_instance(self, tokens: Sequence[Union[str, Token]]) -> Instance:
        """Return an `Instance` of a tokenized sentence of any length."""
        return Instance({"tokens": TextField(as_tokens(tokens))})

    def apply_token_indexers(self, instance: Instance) -> None:
        """Give the tokens their indexers, in the process that indexes them."""
        instance["tokens"].token_indexers = self._token_indexers  # type: ignore[attr-defined]

    def _read(self, file_path: str) -> Iterator[Instance]:
        logger.info("Reading text shards %s", file_path)
        sentences = SentenceStream(find_shards(file_path), shuffle=False).sentences(epoch=0)
        pieces = split_sentences((tokens for tokens, _ in sentences), self._max_sentence_length, file_path)
        for piece in self.shard_iterable(pieces):
            yield self.text_to_instance(piece)
