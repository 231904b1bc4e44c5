"""Batches of whole sentences of like length, the way a biLM is used."""

from collections.abc import Iterator
from itertools import chain, islice, zip_longest
from random import Random
from typing import Any, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data import DataLoader, DatasetReader

from elmo_plugin.pretraining.shards import Position
from elmo_plugin.pretraining.shards_loader import ShardsLoader
from elmo_plugin.pretraining.text_shards import cut
from elmo_plugin.text import length_batches

SENTENCES_IN_POOL = 16384
"""Sentences that are sorted by length together."""


@DataLoader.register("sentence_batches")
class SentenceBatches(ShardsLoader):
    """Batches of sentences of like length, each read from `<S>` to `</S>` and from nothing before it.

    A batch is `tokens`: `characters` (B, T, C) and `words` (B, T), ids padded with 0, without `<S>` and `</S>`.
    Of several processes, each takes its turn at the batches; in a single pass the last may be of no sentence.

    Registered as a `DataLoader` with name `sentence_batches`.

    # Parameters

    reader, data_path, shuffle, seed, batches_per_epoch
        As in `ShardsLoader`.
    max_tokens : `int`
        A batch has as many sentences as fit: of B sentences, the longest with T words, B (T + 1) is at most this.
    max_sentence_length : `int`
        A longer sentence is cut into pieces of this length.
    """

    def __init__(
        self,
        reader: DatasetReader,
        data_path: str,
        max_tokens: int = 2560,
        max_sentence_length: int = 400,
        shuffle: bool = True,
        seed: int = 0,
        batches_per_epoch: Optional[int] = None,
    ) -> None:
        if not 1 <= max_sentence_length < max_tokens:
            raise ConfigurationError(
                f"'max_sentence_length' is {max_sentence_length} and 'max_tokens' {max_tokens}; wanted one sentence "
                "of that length, and its end, to fit into a batch"
            )
        super().__init__(reader, data_path, max_tokens, shuffle, seed, batches_per_epoch)
        self.max_tokens = max_tokens
        self.max_sentence_length = max_sentence_length
        self._place: dict[str, Any] = {}

    def read_batches(self, place: Optional[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Batches; the pool that a restored place lies in is read once more."""
        batches = self._batches_of_all(**(place or {}))
        # At the end of a single pass some processes may be left with a batch of no sentence, as all must give as many.
        for turn in zip_longest(*[batches] * self.n_ranks, fillvalue=[]):
            yield {"tokens": self.words.of_sentences(turn[self.rank])}  # type: ignore[union-attr]

    def place(self) -> dict[str, Any]:
        """The start of the pool, and how many batches the processes have had of it."""
        return dict(self._place)

    def sizes(self) -> dict[str, int]:
        """What cuts pools into batches, and how many of these make a step."""
        return {
            "'max_tokens'": self.max_tokens,
            "'max_sentence_length'": self.max_sentence_length,
            "processes": self.n_ranks,
        }

    def _batches_of_all(self, epoch: int = 0, position: Position = (0, 0), done: int = 0) -> Iterator[list[list[str]]]:
        """The batches of every process in turn. A pool ends where its pass does, which has each sentence once."""
        for current in self.passes(epoch, position):
            start = current.position
            while pool := list(islice(current.sentences, SENTENCES_IN_POOL)):
                batches = self._batches_of_pool([sentence for sentence, _ in pool])
                if self.endless:
                    Random(f"{self.stream.seed} {current.epoch} {start}").shuffle(batches)
                for number in range(done, len(batches)):
                    self._place = {"epoch": current.epoch, "position": start, "done": number + 1}
                    yield batches[number]
                start, done = pool[-1][1], 0

    def _batches_of_pool(self, sentences: list[list[str]]) -> list[list[list[str]]]:
        """Cut sentences that are too long, sort all by length and put them into batches as large as possible."""
        pool = list(chain.from_iterable(cut(sentence, self.max_sentence_length) for sentence in sentences))
        batches = length_batches(list(map(len, pool)), self.max_tokens, boundaries=1)
        return [[pool[index] for index in batch] for batch in batches]
