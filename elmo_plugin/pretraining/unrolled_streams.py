"""The data loader `unrolled_streams`: windows over parallel streams of text, as bilm-tf trains."""

from collections import deque
from collections.abc import Iterator
from typing import Any, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data import DataLoader, DatasetReader

from elmo_plugin.checkpoints import BEGIN, END
from elmo_plugin.common import at_least
from elmo_plugin.pretraining.shards_loader import ShardsLoader

Step = tuple[str, str, str, str]
"""One time step: input and target of the forward direction, then input and target of the backward direction."""


def steps(sentence: list[str]) -> Iterator[Step]:
    """Return the T + 1 time steps of a sentence of T words.

    The backward direction reads each sentence in reverse, but the sentences in the same order, so it carries its state
    from window to window as the forward direction does (`BidirectionalLMDataset` in bilm-tf's `bilm/data.py`).
    """
    forward = [BEGIN, *sentence, END]
    backward = forward[::-1]
    return zip(forward[:-1], forward[1:], backward[:-1], backward[1:], strict=True)


@DataLoader.register("unrolled_streams")
class UnrolledStreams(ShardsLoader):
    """Makes windows of U words from each of S streams. The biLM carries its state from window to window.

    A batch has the key `windows`: for each direction `characters` (S, U, C), `words` (S, U) and `targets` (S, U), ids
    padded with 0; and `first`, which is true for the first window. In distributed training each process has S streams.

    Registered as a `DataLoader` with name `unrolled_streams`. Source: Peters et al. 2018 §3.4; the sizes are
    `batch_size` and `unroll_steps` of bilm-tf's `bin/train_elmo.py`.

    ```jsonnet
    data_loader: { type: 'unrolled_streams', streams: 128, window: 20, shuffle: true },
    validation_data_loader: { type: 'unrolled_streams', streams: 128, window: 20, shuffle: false },
    ```

    # Parameters

    reader, data_path, shuffle, seed, batches_per_epoch
        As in `ShardsLoader`.
    streams : `int`
        S.
    window : `int`
        U, the number of words that gradients flow through.
    """

    def __init__(
        self,
        reader: DatasetReader,
        data_path: str,
        streams: int = 128,
        window: int = 20,
        shuffle: bool = True,
        seed: int = 0,
        batches_per_epoch: Optional[int] = None,
    ) -> None:
        at_least(1, streams=streams, window=window)
        super().__init__(reader, data_path, streams * window, shuffle, seed, batches_per_epoch)
        self.n_streams = streams
        self.window = window
        # Every process keeps the streams of all, so that each stream gets the sentences that it gets in a single one.
        self._streams: list[deque[Step]] = []
        self._read_up_to: dict[str, Any] = {}

    def __len__(self) -> int:
        """As in `ShardsLoader`. Raises `ConfigurationError` for a text that is too short to fill one batch."""
        if self.endless and self.batches_per_epoch is None and self.stream.tokens_per_pass < self.tokens_per_step:
            processes = f" × {self.world_size} processes" * (self.world_size > 1)
            raise ConfigurationError(
                f"{self.data_path}: expected at least {self.tokens_per_step} tokens, with sentence ends, for one batch "
                f"('streams' {self.n_streams} × 'window' {self.window}{processes}), got {self.stream.tokens_per_pass}; "
                "use a longer text or a smaller batch, or set 'batches_per_epoch' to repeat the text in an epoch"
            )
        return super().__len__()

    def read_batches(self, position: Optional[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield windows from a position on; without `shuffle`, until every stream has ended."""
        first = position is None
        position = position or {"read_up_to": {}, "streams": [()] * (self.n_streams * self.world_size)}
        self._read_up_to = position["read_up_to"]
        self._streams = [deque(rest) for rest in position["streams"]]
        sentences = self._sentences()
        while True:
            for stream in self._streams:
                while len(stream) < self.window and (sentence := next(sentences, None)) is not None:
                    stream.extend(steps(sentence))
            if not any(self._streams):
                return
            windows = [[stream.popleft() for _ in range(min(self.window, len(stream)))] for stream in self._streams]
            own = windows[self.rank * self.n_streams :][: self.n_streams]
            yield {"windows": {**self._to_ids(own), "first": first}}
            first = False

    def position(self) -> dict[str, Any]:
        """Return how far the text has been read, and the steps that remain in each stream."""
        return {"read_up_to": self._read_up_to, "streams": [list(stream) for stream in self._streams]}

    def sizes(self) -> dict[str, Optional[int]]:
        """Return the number of streams of all processes, and U."""
        return {"streams": self.n_streams * self.world_size, "window": self.window}

    def _sentences(self) -> Iterator[list[str]]:
        for epoch, _, sentences in self.stream.passes(**self._read_up_to):
            for sentence, position in sentences:
                self._read_up_to = {"epoch": epoch, "position": position}
                yield sentence

    def _to_ids(self, windows: list[list[Step]]) -> dict[str, Any]:
        batch: dict[str, Any] = {}
        columns = [list(zip(*window, strict=True)) or [()] * 4 for window in windows]  # of each window
        for column, direction in ((0, "forward"), (2, "backward")):
            inputs, targets = ([each[place] for each in columns] for place in (column, column + 1))
            batch[direction] = {
                "characters": self.word_ids.characters(inputs, self.window),  # (S, U, C)
                "words": self.word_ids.words(inputs, self.window),  # (S, U)
                "targets": self.word_ids.words(targets, self.window),  # (S, U)
            }
        return batch
