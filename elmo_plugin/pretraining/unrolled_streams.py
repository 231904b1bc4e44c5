"""Windows over parallel streams of text, the way bilm-tf trains."""

from collections import deque
from collections.abc import Iterator
from typing import Any, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data import DataLoader, DatasetReader

from elmo_plugin.config_keys import at_least
from elmo_plugin.pretraining.shards_loader import ShardsLoader
from elmo_plugin.pretraining.word_ids import WordIds

BEGIN, END = "<S>", "</S>"
Step = tuple[str, str, str, str]
"""What the forward direction reads at one time and what it should predict, and the same of the backward direction."""


def steps(sentence: list[str]) -> Iterator[Step]:
    """The T + 1 times of a sentence of T words: from `<S>` on up to `</S>`, and from `</S>` on up to `<S>`.

    Each sentence is turned round in its own place, so that the backward direction reads on from window to window as
    the forward one does (`BidirectionalLMDataset` of bilm-tf's `bilm/data.py`).
    """
    forward = [BEGIN, *sentence, END]
    backward = forward[::-1]
    return zip(forward[:-1], forward[1:], backward[:-1], backward[1:], strict=True)


@DataLoader.register("unrolled_streams")
class UnrolledStreams(ShardsLoader):
    """Windows of U words from each of S streams; a biLM carries its state from window to window.

    A batch is `windows`: for each direction `characters` (S, U, C), `words` (S, U) and `targets` (S, U), ids padded
    with 0, and `first`, whether nothing was read before. Of several processes, each has S streams of its own.

    Registered as a `DataLoader` with name `unrolled_streams`. Source: Peters et al. 2018 §3.4; the sizes are
    `batch_size` and `unroll_steps` of bilm-tf's `bin/train_elmo.py`.

    # Parameters

    reader, data_path, shuffle, seed, batches_per_epoch
        As in `ShardsLoader`.
    streams : `int`
        S.
    window : `int`
        U, words between two cuts of the gradient.
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
        # Every rank keeps the streams of all of them, so that sentences fall to streams as they would in one process.
        self._streams: list[deque[Step]] = []
        self._read_up_to: dict[str, Any] = {}

    def __len__(self) -> int:
        """As in `ShardsLoader`. Raises `ConfigurationError` for a text that is too short to fill one batch."""
        if self.endless and self.batches_per_epoch is None and self.tokens_per_pass() < self.tokens_per_step:
            ranks = f" × {self.n_ranks} processes" * (self.n_ranks > 1)
            raise ConfigurationError(
                f"{self.data_path} has {self.tokens_per_pass()} tokens, sentence ends included; a batch takes "
                f"{self.tokens_per_step} ('streams' {self.n_streams} × 'window' {self.window}{ranks}); wanted a "
                "longer text, a smaller batch, or 'batches_per_epoch' to repeat the text within one"
            )
        return super().__len__()

    def read_batches(self, place: Optional[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Windows, until a single pass has ended in every stream."""
        first = place is None
        place = place or {"read_up_to": {}, "streams": [()] * (self.n_streams * self.n_ranks)}
        self._read_up_to = place["read_up_to"]
        self._streams = [deque(left) for left in place["streams"]]
        sentences = self._sentences()
        while self._fill(sentences):
            windows = [[stream.popleft() for _ in range(min(self.window, len(stream)))] for stream in self._streams]
            own = windows[self.rank * self.n_streams :][: self.n_streams]
            yield {"windows": {**self._to_ids(own), "first": first}}
            first = False

    def place(self) -> dict[str, Any]:
        """How far the text was read, and what is left in each stream."""
        return {"read_up_to": self._read_up_to, "streams": [list(stream) for stream in self._streams]}

    def sizes(self) -> dict[str, int]:
        """S and U."""
        return {"streams": self.n_streams * self.n_ranks, "'window'": self.window}

    def _sentences(self) -> Iterator[list[str]]:
        for epoch, _, sentences in self.passes(**self._read_up_to):
            for sentence, position in sentences:
                self._read_up_to = {"epoch": epoch, "position": position}
                yield sentence

    def _fill(self, sentences: Iterator[list[str]]) -> bool:
        """Give each stream a window's worth, as far as there is text; tell whether any has something."""
        for stream in self._streams:
            while len(stream) < self.window and (sentence := next(sentences, None)) is not None:
                stream.extend(steps(sentence))
        return any(self._streams)

    def _to_ids(self, windows: list[list[Step]]) -> dict[str, Any]:
        ids: WordIds = self.words  # type: ignore[assignment]
        batch: dict[str, Any] = {}
        for column, direction in ((0, "forward"), (2, "backward")):
            inputs = [[step[column] for step in window] for window in windows]
            targets = [[step[column + 1] for step in window] for window in windows]
            batch[direction] = {
                "characters": ids.spell(inputs, self.window),  # (S, U, C)
                "words": ids.look_up(inputs, self.window),  # (S, U)
                "targets": ids.look_up(targets, self.window),  # (S, U)
            }
        return batch
