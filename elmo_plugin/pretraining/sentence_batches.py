"""The data loader `sentence_batches`: batches of whole sentences of similar length, as a trained biLM reads them."""

from collections.abc import Iterator
from itertools import islice, zip_longest
from random import Random
from typing import Any, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data import DataLoader, DatasetReader

from elmo_plugin.pretraining.shards import Position, split_sentences
from elmo_plugin.pretraining.shards_loader import ShardsLoader
from elmo_plugin.text import length_batches

SENTENCES_IN_POOL = 16384
"""The number of sentences that are sorted by length together."""


@DataLoader.register("sentence_batches")
class SentenceBatches(ShardsLoader):
    """Makes batches of sentences of similar length. The biLM reads each from `<S>` to `</S>`, from a zero state.

    A batch has the key `tokens`: `characters` (B, T, C) and `words` (B, T), ids padded with 0, without `<S>` and
    `</S>`. In distributed training the processes take batches in turn. Without `shuffle`, the last batch of a process
    may be empty.

    Registered as a `DataLoader` with name `sentence_batches`.

    ```jsonnet
    data_loader: { type: 'sentence_batches', max_tokens: 2560, shuffle: true },
    validation_data_loader: { type: 'sentence_batches', max_tokens: 2560, shuffle: false },
    ```

    # Parameters

    reader, data_path, shuffle, seed, batches_per_epoch
        As in `ShardsLoader`.
    max_tokens : `int`
        The token budget of a batch: B sentences, the longest with T words, have B (T + 1) ≤ `max_tokens`.
    max_sentence_length : `Optional[int]`
        A longer sentence is split into pieces of this length, with a warning. Null never splits: a sentence that alone
        exceeds `max_tokens` is then a batch by itself.
    """

    def __init__(
        self,
        reader: DatasetReader,
        data_path: str,
        max_tokens: int = 2560,
        max_sentence_length: Optional[int] = 400,
        shuffle: bool = True,
        seed: int = 0,
        batches_per_epoch: Optional[int] = None,
    ) -> None:
        if max_sentence_length is not None and not 1 <= max_sentence_length < max_tokens:
            raise ConfigurationError(
                f"'max_sentence_length': expected at least 1 and less than 'max_tokens' ({max_tokens}), "
                f"got {max_sentence_length}"
            )
        super().__init__(reader, data_path, max_tokens, shuffle, seed, batches_per_epoch)
        self.max_tokens = max_tokens
        self.max_sentence_length = max_sentence_length
        self._position: dict[str, Any] = {}

    def read_batches(self, position: Optional[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield batches from a position on. The pool that contains the position is read again."""
        batches = self._batches_of_all_processes(**(position or {}))
        # At the end of a single pass some processes get an empty batch, because all must yield the same number.
        for step in zip_longest(*[batches] * self.world_size, fillvalue=[]):
            yield {"tokens": self.word_ids.of_sentences(step[self.rank])}

    def position(self) -> dict[str, Any]:
        """Return the epoch, the start of the pool, and how many of its batches are done."""
        return dict(self._position)

    def sizes(self) -> dict[str, Optional[int]]:
        """Return the keys that decide how a pool is split into batches."""
        return {"max_tokens": self.max_tokens, "max_sentence_length": self.max_sentence_length}

    def _batches_of_all_processes(
        self, epoch: int = 0, position: Position = (0, 0), done: int = 0
    ) -> Iterator[list[list[str]]]:
        """Yield the batches that the processes take in turn. A pool never spans two passes."""
        for current, start, sentences in self.stream.passes(epoch, position):
            while pool := list(islice(sentences, SENTENCES_IN_POOL)):
                whole = (sentence for sentence, _ in pool)
                pieces = list(split_sentences(whole, self.max_sentence_length, self.data_path))
                batches = list(length_batches(list(map(len, pieces)), self.max_tokens, boundaries=1))
                if self.endless:
                    Random(f"{self.stream.seed} {current} {start}").shuffle(batches)
                for number in range(done, len(batches)):
                    self._position = {"epoch": current, "position": start, "done": number + 1}
                    yield [pieces[index] for index in batches[number]]
                start, done = pool[-1][1], 0
