"""The base class of the data loaders that read text shards: passes, epochs, resuming and distributed training."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Optional

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import is_distributed
from allennlp.data import DataLoader, DatasetReader, Instance, TensorDict, Vocabulary
from torch import distributed

from elmo_plugin.common import check_made_with
from elmo_plugin.pretraining.shards import SentenceStream, shard_lines
from elmo_plugin.pretraining.vocabulary import WordIds
from elmo_plugin.text import find_shards, raw_text_form

logger = logging.getLogger(__name__)


class ShardsLoader(DataLoader, ABC):
    """Makes batches of the sentences in the files that a pattern matches.

    With `shuffle`, for training, the loader reads the text in endless passes, and a batch may contain sentences of two
    passes. An epoch has as many batches as the tokens of a pass fill. Without `shuffle`, for evaluation, the loader
    reads every token once, in the order of the files.

    In distributed training all processes yield the same number of batches and keep the same position in the text, so
    the state of any process is the state of all.

    # Parameters

    reader : `DatasetReader`
        A `text_shards` reader; from the config's `dataset_reader`.
    data_path : `str`
        A path or a pattern; from the config's `train_data_path` or `validation_data_path`.
    tokens_per_batch : `int`
        The number of tokens in a batch of one process.
    shuffle : `bool`
    seed : `int`
        The seed of the shuffling.
    batches_per_epoch : `Optional[int]`
        With `shuffle`, the number of batches of an epoch. By default an epoch is a pass.
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
            expected = "1 or more" if shuffle else "null without 'shuffle', because evaluation reads every token"
            raise ConfigurationError(f"'batches_per_epoch': expected {expected}, got {batches_per_epoch}")
        self.reader = reader
        self.data_path = data_path
        self.stream = SentenceStream(find_shards(data_path), shuffle, seed)
        self.endless = shuffle
        self.batches_per_epoch = batches_per_epoch
        self.rank = distributed.get_rank() if is_distributed() else 0
        self.world_size = distributed.get_world_size() if is_distributed() else 1
        self.tokens_per_step = tokens_per_batch * self.world_size
        if shuffle and self.rank == 0 and (form := raw_text_form(shard_lines(self.stream.shards[0]))):
            message = "%s looks %s: expected one tokenized sentence per line, as `elmo-plugin prepare-text` writes"
            logger.warning(message, self.stream.shards[0], form)
        self._batches: Optional[Iterator[TensorDict]] = None
        self._n_yielded = 0
        self._n_to_skip = 0
        self._restored: Optional[dict[str, Any]] = None

    @abstractmethod
    def read_batches(self, position: Optional[dict[str, Any]]) -> Iterator[TensorDict]:
        """Yield the batches of this process from a position on; `None` is the start."""

    @abstractmethod
    def position(self) -> dict[str, Any]:
        """Return the position after the last batch, as plain values that `torch.load` reads with `weights_only`."""

    @abstractmethod
    def sizes(self) -> dict[str, Optional[int]]:
        """Return the config keys that a position depends on, with their values."""

    def __len__(self) -> int:
        """Return the number of batches of an epoch. Raises `TypeError` without `shuffle`."""
        if not self.endless:
            raise TypeError("without 'shuffle' the number of batches is not known before the text is read")
        if self.batches_per_epoch is not None:
            return self.batches_per_epoch
        return max(1, self.stream.tokens_per_pass // self.tokens_per_step)

    def __iter__(self) -> Iterator[TensorDict]:
        """Yield one epoch. After `load_state_dict` it begins with empty batches, which the trainer skips."""
        if not self.endless:
            yield from self.read_batches(None)
            return
        for _ in range(len(self)):
            if self._n_to_skip:
                self._n_to_skip -= 1
                yield {}
                continue
            if self._batches is None:
                self._batches = self.read_batches(self._restored)
            self._n_yielded += 1
            yield next(self._batches)

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the text, the number of batches before it, and the settings that both depend on."""
        position = self._restored if self._batches is None else self.position()
        return {"batches": self._n_yielded, "place": position, "settings": self._settings()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume after the last batch before `state_dict` was called.

        Raises `ConfigurationError` if the text, the seed, or the size of a batch or an epoch has changed.
        """
        advice = "--recover needs the text and the settings that the run was started with"
        check_made_with(f"a checkpoint on {self.data_path}", state["settings"], self._settings(), advice)
        self._n_yielded = self._n_to_skip = state["batches"]
        self._restored = state["place"]
        self._batches = None

    def iter_instances(self) -> Iterator[Instance]:
        """Yield the sentences as instances, for tools that want them. Batches are made without instances."""
        return iter(self.reader.read(self.data_path))

    def index_with(self, vocab: Vocabulary) -> None:
        """Look words up in the namespace `tokens` of a vocabulary."""
        self.word_ids = WordIds(vocab)

    def set_target_device(self, device: torch.device) -> None:
        """Do nothing: the language model looks words up on the CPU, and moves to its device what it needs there."""

    def _settings(self) -> dict[str, Any]:
        # The size of the text identifies it: to compare the content would take too long.
        shards = self.stream.shards
        text = {"files": len(shards), "bytes": sum(shard.stat().st_size for shard in shards)}
        epoch = {"batches_per_epoch": len(self)} if self.endless else {}
        return {**text, **epoch, "shuffle": self.endless, "seed": self.stream.seed, **self.sizes()}
