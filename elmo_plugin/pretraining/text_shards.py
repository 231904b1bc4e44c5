"""Text shards as AllenNLP's Instances, for the data loaders and the predictors that know nothing else."""

import logging
from collections.abc import Iterator
from typing import Optional

from allennlp.data import DatasetReader, Instance, Token, TokenIndexer
from allennlp.data.fields import TextField
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer, SingleIdTokenIndexer

from elmo_plugin.config_keys import at_least
from elmo_plugin.pretraining.shards import SentenceStream, find_shards

logger = logging.getLogger(__name__)


def cut(tokens: list[str], length: int) -> Iterator[list[str]]:
    """A sentence in pieces of at most `length` tokens, in their order."""
    for start in range(0, len(tokens), length):
        yield tokens[start : start + length]


@DatasetReader.register("text_shards")
class TextShardsReader(DatasetReader):
    """Reads sentences from the files that a pattern names: one tokenised sentence a line, plain, .gz or .xz.

    Each `Instance` has the field `tokens` (`TextField`). An error in a file is a `ConfigurationError` that names it.

    Registered as a `DatasetReader` with name `text_shards`.

    # Parameters

    token_indexers : `Dict[str, TokenIndexer]`, optional
        How tokens become numbers; by default `characters` (`ELMoTokenCharactersIndexer`), what a biLM reads, and
        `words` (`SingleIdTokenIndexer`), what it predicts.
    shuffle : `bool`, optional (default = `False`)
        Read the sentences in another order than the files', the same one each time, in memory that does not grow.
    seed : `int`, optional (default = `0`)
        Of that order.
    max_sentence_length : `int`, optional (default = `400`)
        A longer sentence is cut into instances of this many tokens, so that no line can exhaust the memory.
    max_instances, serialization_dir
        As in `DatasetReader`.
    """

    def __init__(
        self,
        token_indexers: Optional[dict[str, TokenIndexer]] = None,
        shuffle: bool = False,
        seed: int = 0,
        max_sentence_length: int = 400,
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
        self._shuffle = shuffle
        self._seed = seed
        self._max_sentence_length = max_sentence_length

    def text_to_instance(self, tokens: list[str]) -> Instance:
        """An `Instance` of a tokenised sentence, of any length."""
        return Instance({"tokens": TextField([Token(token) for token in tokens])})

    def apply_token_indexers(self, instance: Instance) -> None:
        """Give the tokens their indexers, in the process that needs them."""
        instance["tokens"].token_indexers = self._token_indexers  # type: ignore[attr-defined]

    def _read(self, file_path: str) -> Iterator[Instance]:
        logger.info("Reading text shards %s", file_path)
        for piece in self.shard_iterable(self._pieces(file_path)):
            yield self.text_to_instance(piece)

    def _pieces(self, pattern: str) -> Iterator[list[str]]:
        stream = SentenceStream(find_shards(pattern), self._shuffle, self._seed)
        for tokens, _ in stream.sentences(epoch=0):
            yield from cut(tokens, self._max_sentence_length)
