"""What the two data loaders over text shards share: an endless or a single pass, its place in it, and ranks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple, Optional

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import is_distributed
from allennlp.data import DataLoader, DatasetReader, Instance, TensorDict, Vocabulary
from allennlp.nn.util import move_to_device
from torch import distributed

from elmo_plugin.pretraining.shards import Position, SentenceStream, find_shards
from elmo_plugin.pretraining.word_ids import WordIds


class Pass(NamedTuple):
    """What is left of one pass: its number, where it goes on, and its sentences with the position after each."""

    epoch: int
    position: Position
    sentences: Iterator[tuple[list[str], Position]]


class ShardsLoader(DataLoader, ABC):
    """Batches of sentences from the files that a pattern names.

    With `shuffle`, which is for training, the text is read pass after pass and batches run over from one to the next:
    an epoch is as many batches as a pass has tokens for. Without, which is for evaluation, it is one pass in the
    order of the files, every token once.

    Of several processes each gives as many batches, and all of them keep the same place: the state of any one is
    that of all.

    # Parameters

    reader : `DatasetReader`
        A `text_shards`; from the config's `dataset_reader`.
    data_path : `str`
        Files, as a path or a pattern; from the config's `train_data_path` or `validation_data_path`.
    tokens_per_batch : `int`
        Tokens that a batch of one process holds.
    shuffle : `bool`
    seed : `int`
        Of the shuffling.
    batches_per_epoch : `Optional[int]`
        With `shuffle`, batches of an epoch, where a pass is too long to wait for; by default those of a pass.
    """

    def __init__(
        self,
        reader: DatasetReader,
        data_path: str,
        tokens_per_batch: int,
        shuffle: bool,
        seed: int,
        batches_per_epoch: Optional[int],
    ) -> None:
        if batches_per_epoch is not None and (batches_per_epoch < 1 or not shuffle):
            wanted = "1 or more" if shuffle else "none where 'shuffle' is false: evaluation reads every token"
            raise ConfigurationError(f"'batches_per_epoch' is {batches_per_epoch}; wanted {wanted}")
        self.reader = reader
        self.data_path = data_path
        self.stream = SentenceStream(find_shards(data_path), shuffle, seed)
        self.endless = shuffle
        self.batches_per_epoch = batches_per_epoch
        self.rank = distributed.get_rank() if is_distributed() else 0
        self.n_ranks = distributed.get_world_size() if is_distributed() else 1
        self.tokens_per_step = tokens_per_batch * self.n_ranks
        self.words: Optional[WordIds] = None
        self.device: Optional[torch.device] = None
        self._batches_given = 0
        self._batches_to_replay = 0
        self._batches: Optional[Iterator[TensorDict]] = None
        self._restored: Optional[dict[str, Any]] = None

    @abstractmethod
    def read_batches(self, place: Optional[dict[str, Any]]) -> Iterator[TensorDict]:
        """This process' batches from a place that `place` gave, or from the start."""

    @abstractmethod
    def place(self) -> dict[str, Any]:
        """The place after the batch given last: numbers, strings, lists, tuples and dicts, not changed afterwards."""

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """What a place depends on beside the text, each by its name in a config."""

    def passes(self, epoch: int = 0, position: Position = (0, 0)) -> Iterator[Pass]:
        """The rest of a pass, and with `shuffle` every pass after it."""
        yield Pass(epoch, position, self.stream.sentences(epoch, position))
        if self.endless:
            for later in count(epoch + 1):
                yield Pass(later, (0, 0), self.stream.sentences(later))

    def tokens_per_pass(self) -> int:
        """Words that one direction is asked for in a pass, each sentence's boundary among them."""
        return self.stream.count().tokens + self.stream.count().sentences

    def __len__(self) -> int:
        """Batches of an epoch. Raises `TypeError` without `shuffle`, where only reading could tell."""
        if not self.endless:
            raise TypeError("a single pass has no length before it is read")
        if self.batches_per_epoch is not None:
            return self.batches_per_epoch
        return max(1, self.tokens_per_pass() // self.tokens_per_step)

    def __iter__(self) -> Iterator[TensorDict]:
        """One epoch; after `load_state_dict`, empty batches first, as many as the trainer wants to see go by."""
        if not self.endless:
            yield from map(self._moved, self.read_batches(None))
            return
        for _ in range(len(self)):
            if self._batches_to_replay:
                self._batches_to_replay -= 1
                yield {}
                continue
            if self._batches is None:
                self._batches = self.read_batches(self._restored)
            self._batches_given += 1
            yield self._moved(next(self._batches))

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to give the next batch: the place in the text and how many batches lie behind it."""
        place = self.place() if self._batches else self._restored
        return {"batches": self._batches_given, "place": place, "settings": self._settings()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on after the batch that was given last when `state_dict` was called.

        Raises `ConfigurationError` where that batch would not be followed by the one that it would have been: other
        files, other sizes of a batch or of an epoch, another seed.
        """
        now = self._settings()
        changed = [
            f"{name} {value}, now {now.get(name)}"
            for name, value in state["settings"].items()
            if value != now.get(name)
        ]
        if changed:
            raise ConfigurationError(
                f"{self.data_path}: cannot go on in the middle of a run that began with {'; '.join(changed)}"
            )
        self._batches_given = self._batches_to_replay = state["batches"]
        self._restored = state["place"]
        self._batches = None

    def iter_instances(self) -> Iterator[Instance]:
        """The sentences as Instances; batches are not made of these."""
        return iter(self.reader.read(self.data_path))

    def index_with(self, vocab: Vocabulary) -> None:
        """Take the vocabulary, whose namespace `tokens` says what each word's id is."""
        self.words = WordIds(vocab)

    def set_target_device(self, device: torch.device) -> None:
        """Where batches go."""
        self.device = device

    def _settings(self) -> dict[str, Any]:
        """What must be the same for a state to mean the same. Of the text it is its size, so that nothing is read."""
        shards = self.stream.shards
        text = {"files": len(shards), "bytes": sum(shard.stat().st_size for shard in shards)}
        epoch = {"batches an epoch": len(self)} if self.endless else {}
        return {**text, **epoch, "'shuffle'": self.endless, "'seed'": self.stream.seed, **self.sizes()}

    def _moved(self, batch: TensorDict) -> TensorDict:
        return batch if self.device is None else move_to_device(batch, self.device)
