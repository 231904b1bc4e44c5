"""The data loader `sentence_batches`: batches of whole sentences of similar length, as a trained biLM reads them."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data import DataLoader, DatasetReader

from elmo_plugin.pretraining.shards import split_sentences
from elmo_plugin.pretraining.shards_loader import ShardsLoader
from elmo_plugin.text import length_batches, split_tokens


@DataLoader.register("sentence_batches")
class SentenceBatches(ShardsLoader):
    """Makes batches of sentences of similar length. The biLM reads each from `<S>` to `</S>`, from a zero state.

    A batch has the key `tokens`: `characters` (B, T, C) and `words` (B, T), ids padded with 0, without `<S>` and
    `</S>`. In distributed training the processes take batches in turn.

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
        self.max_tokens = max_tokens
        self.max_sentence_length = max_sentence_length
        super().__init__(reader, data_path, 1, shuffle, seed, batches_per_epoch)

    def items(self, lines: list[str]) -> list[list[list[str]]]:
        """Divide sentences into batches of similar length."""
        pieces = list(split_sentences(map(split_tokens, lines), self.max_sentence_length, self.data_path))
        batches = length_batches(list(map(len, pieces)), self.max_tokens, boundaries=1)
        return [[pieces[index] for index in batch] for batch in batches]

    def steps_of(self, item: list[list[str]]) -> int:
        """Return 1. How many batches a block has depends on the lengths in it, not on its order."""
        return 1

    def read_pass(self) -> Iterator[dict[str, Any]]:
        """Yield the batches that this process takes."""
        batches = self.read_items()
        while step := list(islice(batches, self.world_size)):
            while len(step) < self.world_size:  # at the end of a pass the processes divide what is left
                most = step.pop(max(range(len(step)), key=lambda number: len(step[number])))
                step += [most[: len(most) // 2], most[len(most) // 2 :]]
            yield {"tokens": self.word_ids.of_sentences(step[self.rank])}

    def sizes(self) -> dict[str, Optional[int]]:
        """Return the keys that decide how a block is divided into batches."""
        return {"max_tokens": self.max_tokens, "max_sentence_length": self.max_sentence_length}
