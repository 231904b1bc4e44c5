"""Text shards: one tokenized sentence per line, plain, .gz or .xz, read in constant memory and from any position."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token, TokenIndexer
from allennlp.data.fields import TextField
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer, SingleIdTokenIndexer
from more_itertools import chunked, constrained_batches

from elmo_plugin.common import at_least
from elmo_plugin.text import TOKENIZED, WHITE_SPACE, TextFile, as_tokens, find_shards, look_at, split_tokens

BLOCK = 2**15
"""The number of sentences that are shuffled together, and the most that a loader holds in memory."""
GROUP = 2**23
"""Shards are read together up to so many bytes, so that small files fill a block."""

logger = logging.getLogger(__name__)


def shard_lines(shard: Path) -> Iterator[str]:
    """Yield the lines of a shard that contain a token; `split_tokens` gives the tokens.

    Raises `ConfigurationError` if the shard cannot be read to its end, is not UTF-8, or contains no token.
    """
    _, lines = look_at(TextFile(shard).lines(), str(shard), TOKENIZED, quiet=True)
    sentences = (line for line in lines if line.strip(WHITE_SPACE))
    first = next(sentences, None)
    if first is None:
        raise ConfigurationError(f"{shard}: expected one sentence per line, got no tokens")
    yield from chain([first], sentences)


def split_sentences(sentences: Iterable[list[str]], length: Optional[int], source: str) -> Iterator[list[str]]:
    """Yield sentences in pieces of at most `length` tokens (`None`: whole). A warning names the first split."""
    for tokens in sentences:
        if length is None or len(tokens) <= length:
            yield tokens
        else:
            where = f"'{source}': sentences of more than {length} tokens (max_sentence_length)".replace("%", "%%")
            logger.warning_once(f"{where}, such as one of %d, are split", len(tokens))  # type: ignore[attr-defined]
            yield from chunked(tokens, length)


def together(shards: list[Path]) -> list[tuple[Path, ...]]:
    """Return the shards in groups that are read one shard after the other: small ones together, large ones alone."""
    return list(constrained_batches(shards, GROUP, get_len=lambda shard: shard.stat().st_size, strict=False))


def blocks_of(group: Iterable[Path], first: int = 0) -> Iterator[list[str]]:
    """Return the lines of shards, `BLOCK` at a time, from the block of this number on."""
    return islice(chunked(chain.from_iterable(map(shard_lines, group)), BLOCK), first, None)


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
        shards = find_shards(file_path)
        look_at(TextFile(shards[0]).lines(), str(shards[0]), TOKENIZED)
        lines = chain.from_iterable(map(shard_lines, shards))
        pieces = split_sentences(map(split_tokens, lines), self._max_sentence_length, file_path)
        for piece in self.shard_iterable(pieces):
            yield self.text_to_instance(piece)
