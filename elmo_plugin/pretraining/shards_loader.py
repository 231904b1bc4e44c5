"""The base class of the data loaders that read text shards: passes, epochs, resuming and distributed training."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from itertools import chain, islice, repeat
from math import ceil
from random import Random
from typing import Any, Optional

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.tqdm import Tqdm
from allennlp.common.util import is_distributed
from allennlp.data import DataLoader, DatasetReader, Instance, TensorDict, Vocabulary
from torch import distributed

from elmo_plugin.common import check_made_with
from elmo_plugin.pretraining.shards import blocks_of, shard_lines, together
from elmo_plugin.pretraining.vocabulary import LINES_OF_A_LANGUAGE, WordIds, language_in
from elmo_plugin.text import TOKENIZED, LanguageCheck, TextFile, find_shards, look_at

ORDER = 2
"""The version of the order in which text is read; a checkpoint of another order cannot be resumed."""


class ShardsLoader(DataLoader, ABC):
    """Makes batches of the sentences in the files that a pattern matches.

    A pass reads each sentence once, and all passes have the same number of batches. Without `shuffle`, for evaluation,
    the loader makes one pass, in the order of the files. With `shuffle`, for training, an epoch is a pass, each in
    another order: files are shuffled, small ones in groups, and the sentences of a file in blocks. Only one block is
    held in memory.

    In distributed training all processes yield the same number of batches and keep the same place in the text, so the
    state of any process is the state of all. At the end of a pass the batch of a process may be empty.

    # Parameters

    reader : `DatasetReader`
        A `text_shards` reader; from the config's `dataset_reader`.
    data_path : `str`
        A path or a pattern; from the config's `train_data_path` or `validation_data_path`.
    steps_per_batch : `int`
        How many steps of a pass one process reads in each batch but the last: S · U words, or 1 batch of sentences.
    shuffle : `bool`
    seed : `int`
        The seed of the shuffling.
    batches_per_epoch : `Optional[int]`
        With `shuffle`, the number of batches of an epoch, if it is not a pass. Passes then go on from epoch to epoch.
    """

    def __init__(
        self,
        reader: DatasetReader,
        data_path: str,
        steps_per_batch: int,
        shuffle: bool,
        seed: int,
        batches_per_epoch: Optional[int],
    ) -> None:
        if batches_per_epoch is not None and (batches_per_epoch < 1 or not shuffle):
            expected = "1 or more" if shuffle else "null without 'shuffle', because evaluation reads every token"
            raise ConfigurationError(f"'batches_per_epoch': expected {expected}, got {batches_per_epoch}")
        self.reader = reader
        self.data_path = data_path
        self.shards = find_shards(data_path)
        self.groups = together(self.shards)
        self.endless = shuffle
        self.seed = seed
        self.batches_per_epoch = batches_per_epoch
        self.rank = distributed.get_rank() if is_distributed() else 0
        self.world_size = distributed.get_world_size() if is_distributed() else 1
        self.steps_per_batch = steps_per_batch * self.world_size
        if shuffle and self.rank == 0:
            first = self.shards[0]
            look_at(TextFile(first).lines(), str(first), TOKENIZED)
        self.rewind()

    @abstractmethod
    def items(self, lines: list[str]) -> list[Any]:
        """Divide the lines of a block into what is shuffled: sentences, or batches of sentences."""

    @abstractmethod
    def steps_of(self, item: Any) -> int:
        """Return how many of the steps of a pass an item takes; see `steps_per_batch`."""

    @abstractmethod
    def read_pass(self) -> Iterator[TensorDict]:
        """Yield the batches of this process in the rest of a pass, whose items `read_items` yields."""

    @abstractmethod
    def sizes(self) -> dict[str, Optional[int]]:
        """Return the config keys that a place in the text depends on, with their values."""

    @cached_property
    def batches_per_pass(self) -> int:
        """The number of batches of each pass, which takes reading the whole text to count."""
        n_steps = 0
        with Tqdm.tqdm(desc="counting batches", unit=" sentences") as progress:
            for block in chain.from_iterable(map(blocks_of, self.groups)):
                n_steps += sum(map(self.steps_of, self.items(block)))
                progress.update(len(block))
        return ceil(n_steps / self.steps_per_batch)

    def __len__(self) -> int:
        """Return the number of batches of an epoch. Raises `TypeError` without `shuffle`."""
        if not self.endless:
            raise TypeError("without 'shuffle' the number of batches is not known before the text is read")
        return self.batches_per_epoch or self.batches_per_pass

    def __iter__(self) -> Iterator[TensorDict]:
        """Yield one epoch. After `load_state_dict` it begins with empty batches, which the trainer skips."""
        if not self.endless:
            self.rewind()
            yield from self.read_pass()
            return
        skipped = min(self._n_to_skip, len(self))
        self._n_to_skip -= skipped
        yield from repeat({}, skipped)
        for batch in islice(self._batches, len(self) - skipped):
            self._n_yielded += 1
            yield batch

    def rewind(self, state: Optional[dict[str, Any]] = None) -> None:
        """Go to the place of a state, or to the start of the text."""
        state = state or {"batches": 0, "place": (0, 0, 0, 0)}
        self._n_yielded = self._n_to_skip = state["batches"]
        self._place = state["place"]  # the pass, and the groups, blocks of a group and items of a block read in it
        self._batches = self._read_passes()

    def read_items(self) -> Iterator[Any]:
        """Yield the items in the rest of a pass, and remember the place after each."""
        current, finished, first, done = self._place
        order = list(range(len(self.groups)))
        if self.endless:
            Random(f"{self.seed} {current}").shuffle(order)  # the hash of a string is the same in every process
        for number in range(finished, len(order)):
            for block, lines in enumerate(blocks_of(self.groups[order[number]], first), first):
                shuffle = Random(f"{self.seed} {current} {number} {block}").shuffle if self.endless else list
                shuffle(lines)
                items = self.items(lines)
                shuffle(items)
                for index in range(done, len(items)):
                    self._place = current, number, block, index + 1
                    yield items[index]
                done = 0
            first = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the place in the text, the number of batches before it, and the settings that both depend on.

        The values are plain, so that `torch.load` reads them with `weights_only`.
        """
        return {"batches": self._n_yielded, "place": self._place, "settings": self._settings()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume after the last batch before `state_dict` was called.

        Raises `ConfigurationError` if the text, the seed, or the size of a batch or an epoch has changed.
        """
        advice = "--recover needs the text and the settings that the run was started with"
        check_made_with(f"a checkpoint on {self.data_path}", state["settings"], self._settings(), advice)
        self.rewind(state)

    def iter_instances(self) -> Iterator[Instance]:
        """Yield the sentences as instances, for tools that want them. Batches are made without instances."""
        return iter(self.reader.read(self.data_path))

    def index_with(self, vocab: Vocabulary) -> None:
        """Look words up in the namespace `tokens` of a vocabulary."""
        self.word_ids = WordIds(vocab)
        LanguageCheck(language_in(vocab)).read(islice(shard_lines(self.shards[0]), LINES_OF_A_LANGUAGE))

    def set_target_device(self, device: torch.device) -> None:
        """Do nothing: the language model looks words up on the CPU, and moves to its device what it needs there."""

    def _read_passes(self) -> Iterator[TensorDict]:
        while True:
            yield from self.read_pass()
            self._place = self._place[0] + 1, 0, 0, 0

    def _settings(self) -> dict[str, Any]:
        # The size of the text identifies it: to compare the content would take too long.
        text = {"files": len(self.shards), "bytes": sum(shard.stat().st_size for shard in self.shards)}
        epoch = {"batches_per_epoch": len(self)} if self.endless else {}
        return {"order": ORDER, **text, **epoch, "shuffle": self.endless, "seed": self.seed, **self.sizes()}
