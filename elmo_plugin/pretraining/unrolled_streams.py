"""The data loader `unrolled_streams`: windows over parallel streams of text, as bilm-tf trains."""

from collections import deque
from collections.abc import Iterator
from math import ceil
from typing import Any, Optional

from allennlp.data import DataLoader, DatasetReader

from elmo_plugin.checkpoints import BEGIN, END
from elmo_plugin.common import at_least
from elmo_plugin.pretraining.shards_loader import ShardsLoader
from elmo_plugin.text import split_tokens

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

    _is_first: bool
    _streams: list[deque[Step]]
    _windows_left: int

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
        self.n_streams = streams
        self.window = window
        super().__init__(reader, data_path, streams * window, shuffle, seed, batches_per_epoch)

    def items(self, lines: list[str]) -> list[str]:
        """Return the lines, each of which is a sentence."""
        return lines

    def steps_of(self, item: str) -> int:
        """Return the number of time steps in which a sentence is read."""
        return len(split_tokens(item)) + 1

    def read_pass(self) -> Iterator[dict[str, Any]]:
        """Yield windows until every stream has ended.

        In training, when there are no sentences left, what is left of each stream is divided evenly among as many
        windows as all of it fills. So every pass has the same number of windows, and each of them nearly S · U words.
        """
        sentences = map(split_tokens, self.read_items())
        while True:
            for stream in self._streams:
                while len(stream) < self.window and (sentence := next(sentences, None)) is not None:
                    stream.extend(steps(sentence))
            lengths = list(map(len, self._streams))
            if not any(lengths):
                self._windows_left = 0
                return
            if self.endless and not self._windows_left and min(lengths) < self.window:
                self._windows_left = ceil(sum(lengths) / self.steps_per_batch)
            if self._windows_left:
                parts = [ceil(length / self._windows_left) for length in lengths]
                self._windows_left -= 1
            else:
                parts = [min(self.window, length) for length in lengths]
            windows = [
                [stream.popleft() for _ in range(part)] for stream, part in zip(self._streams, parts, strict=True)
            ]
            own = windows[self.rank * self.n_streams :][: self.n_streams]
            first, self._is_first = self._is_first, False
            yield {"windows": {**self._to_ids(own), "first": first}}

    def rewind(self, state: Optional[dict[str, Any]] = None) -> None:
        """Go to the place of a state, with what it has left of each stream, or to the start of the text."""
        super().rewind(state)
        # Every process keeps the streams of all, so that each stream gets the sentences that it gets in a single one.
        rest = state or {"streams": [()] * (self.n_streams * self.world_size), "windows_left": 0}
        self._is_first = self._n_yielded == 0
        self._streams = list(map(deque, rest["streams"]))
        self._windows_left = rest["windows_left"]

    def state_dict(self) -> dict[str, Any]:
        """As in `ShardsLoader`, with what is left of each stream, and at the end of a pass of its windows."""
        rest = {"streams": list(map(list, self._streams)), "windows_left": self._windows_left}
        return {**super().state_dict(), **rest}

    def sizes(self) -> dict[str, Optional[int]]:
        """Return the number of streams of all processes, and U."""
        return {"streams": self.n_streams * self.world_size, "window": self.window}

    def _to_ids(self, windows: list[list[Step]]) -> dict[str, Any]:
        batch: dict[str, Any] = {}
        width = max(self.window, *map(len, windows))
        columns = [list(zip(*window, strict=True)) or [()] * 4 for window in windows]  # of each window
        for column, direction in ((0, "forward"), (2, "backward")):
            inputs, targets = ([each[place] for each in columns] for place in (column, column + 1))
            batch[direction] = {
                "characters": self.word_ids.characters(inputs, width),  # (S, U, C)
                "words": self.word_ids.words(inputs, width),  # (S, U)
                "targets": self.word_ids.words(targets, width),  # (S, U)
            }
        return batch
