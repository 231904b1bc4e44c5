"""The reader of text shards, and their loaders: windows over parallel streams of text, batches of whole sentences."""

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice, repeat
from math import ceil
from pathlib import Path
from random import Random
from typing import Any, Optional, Union

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.tqdm import Tqdm
from allennlp.common.util import is_distributed
from allennlp.data import DataLoader, DatasetReader, Instance, TensorDict, Token, TokenIndexer, Vocabulary
from allennlp.data.fields import TextField
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer, SingleIdTokenIndexer
from more_itertools import chunked, constrained_batches
from torch import distributed

from elmo_plugin.checkpoints import BEGIN, END
from elmo_plugin.common import at_least, check_made_with
from elmo_plugin.pretraining.vocabulary import LINES_OF_A_LANGUAGE, WordIds, language_in, shard_lines
from elmo_plugin.text import (
    TOKENIZED,
    LanguageCheck,
    TextFile,
    as_tokens,
    find_shards,
    length_batches,
    look_at,
    split_tokens,
)

SHUFFLED = 2**15
"""The number of sentences that are shuffled together, and the most that a loader holds in memory."""
GROUP = 2**23
"""Shards are read together up to so many bytes, so that small files fill a block."""
ORDER = 2
"""The version of the order in which text is read; a checkpoint of another order cannot be resumed."""

logger = logging.getLogger(__name__)


@DatasetReader.register("text_shards")
class TextShardsReader(DatasetReader):
    """Reads sentences from the files that a pattern matches: one tokenized sentence per line, plain, .gz or .xz.

    Each `Instance` has the field `tokens` (`TextField`). Raises `ConfigurationError`, naming the file, for a file that
    cannot be read.

    Registered as a `DatasetReader` with name `text_shards`.

    ```jsonnet
    dataset_reader: { type: 'text_shards' },
    train_data_path: 'corpus/train-*.txt.gz',
    ```

    # Parameters

    token_indexers : `Dict[str, TokenIndexer]`, optional
        The default is `characters` (`ELMoTokenCharactersIndexer`), which a biLM reads, and `words`
        (`SingleIdTokenIndexer`), which it predicts.
    max_sentence_length : `Optional[int]`, optional (default = `400`)
        A longer sentence is split into instances of this many tokens, with a warning, so that no line can exhaust
        memory. Null never splits.
    max_instances, serialization_dir
        As in `DatasetReader`.
    """

    def __init__(
        self,
        token_indexers: Optional[dict[str, TokenIndexer]] = None,
        max_sentence_length: Optional[int] = 400,
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
        self._max_sentence_length = max_sentence_length

    def text_to_instance(self, tokens: Sequence[Union[str, Token]]) -> Instance:
        """Return an `Instance` of a tokenized sentence of any length."""
        return Instance({"tokens": TextField(as_tokens(tokens))})

    def apply_token_indexers(self, instance: Instance) -> None:
        """Give the tokens their indexers, in the process that indexes them."""
        instance["tokens"].token_indexers = self._token_indexers  # type: ignore[attr-defined]

    def _read(self, file_path: str) -> Iterator[Instance]:
        logger.info("Reading text shards %s", file_path)
        shards = find_shards(file_path)
        look_at(TextFile(shards[0]).lines(), str(shards[0]), TOKENIZED)
        lines = chain.from_iterable(map(shard_lines, shards))
        pieces = split_sentences(map(split_tokens, lines), self._max_sentence_length, file_path)
        for piece in self.shard_iterable(pieces):
            yield self.text_to_instance(piece)


def split_sentences(sentences: Iterable[list[str]], length: Optional[int], source: str) -> Iterator[list[str]]:
    """Yield sentences in pieces of at most `length` tokens (`None`: whole). A warning names the first split."""
    for tokens in sentences:
        if length is None or len(tokens) <= length:
            yield tokens
        else:
            where = f"'{source}': sentences of more than {length} tokens (max_sentence_length)".replace("%", "%%")
            logger.warning_once(f"{where}, such as one of %d, are split", len(tokens))  # type: ignore[attr-defined]
            yield from chunked(tokens, length)


def blocks_of(group: Iterable[Path], first: int = 0) -> Iterator[list[str]]:
    """Return the lines of shards, `SHUFFLED` at a time, from the block of this number on."""
    return islice(chunked(chain.from_iterable(map(shard_lines, group)), SHUFFLED), first, None)


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
    sizes : `dict[str, Any]`
        The config keys that a place in the text depends on, with their values.
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
        sizes: dict[str, Any],
        shuffle: bool,
        seed: int,
        batches_per_epoch: Optional[int],
    ) -> None:
        if batches_per_epoch is not None and (batches_per_epoch < 1 or not shuffle):
            expected = "1 or more" if shuffle else "null without 'shuffle', because evaluation reads every token"
            raise ConfigurationError(f"'batches_per_epoch': expected {expected}, got {batches_per_epoch}")
        self.reader = reader
        self.sizes = sizes
        self.data_path = data_path
        self.shards = find_shards(data_path)
        # Small shards are read together, and large ones alone.
        self.groups = list(
            constrained_batches(self.shards, GROUP, get_len=lambda shard: shard.stat().st_size, strict=False)
        )
        self.endless = shuffle
        self.seed = seed
        self.batches_per_epoch = batches_per_epoch
        self.rank = distributed.get_rank() if is_distributed() else 0
        self.world_size = distributed.get_world_size() if is_distributed() else 1
        self.steps_per_batch = steps_per_batch * self.world_size
        if shuffle and self.rank == 0:
            look_at(TextFile(self.shards[0]).lines(), str(self.shards[0]), TOKENIZED)
        self.rewind()

    def items(self, lines: list[str]) -> list[Any]:
        """Divide the lines of a block into what is shuffled: sentences, or batches of sentences."""
        return lines

    def steps_of(self, item: Any) -> int:
        """Return how many of the steps of a pass an item takes; see `steps_per_batch`."""
        return 1

    @abstractmethod
    def read_pass(self) -> Iterator[TensorDict]:
        """Yield the batches of this process in the rest of a pass, whose items `read_items` yields."""

    @cached_property
    def batches_per_pass(self) -> int:
        """The number of batches of each pass, which takes reading the whole text to count."""
        blocks = Tqdm.tqdm(
            chain.from_iterable(map(blocks_of, self.groups)),
            desc="counting batches",
            unit=f" blocks of {SHUFFLED:,} sentences",
        )
        n_steps = sum(self.steps_of(item) for block in blocks for item in self.items(block))
        return ceil(n_steps / self.steps_per_batch)

    def __len__(self) -> int:
        """Return the number of batches of an epoch. Raises `TypeError` without `shuffle`."""
        if not self.endless:
            raise TypeError("without 'shuffle' the number of batches is not known before the text is read")
        return self.batches_per_epoch or self.batches_per_pass

    def __iter__(self) -> Iterator[TensorDict]:
        """Yield one epoch. After `load_state_dict` it begins with empty batches, which the trainer skips."""
        if self.endless:
            batches: Iterator[TensorDict] = islice(self._batches, len(self))
        else:
            self.rewind()
            batches = self.read_pass()
        for batch in batches:
            self._n_yielded += bool(batch)
            yield batch

    def rewind(self, state: Optional[dict[str, Any]] = None) -> None:
        """Go to the place of a state, or to the start of the text."""
        state = state or {"batches": 0, "place": (0, 0, 0, 0)}
        self._n_yielded = state["batches"]
        self._place = state["place"]  # the pass, and the groups, blocks of a group and items of a block read in it
        self._batches = chain(repeat({}, state["batches"]), self._read_passes())

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
        return {
            "order": ORDER,
            # The size of the text identifies it: to compare the content would take too long.
            "files": len(self.shards),
            "bytes": sum(shard.stat().st_size for shard in self.shards),
            **({"batches_per_epoch": len(self)} if self.endless else {}),
            "shuffle": self.endless,
            "seed": self.seed,
            **self.sizes,
        }


def steps(sentence: list[str]) -> Iterator[tuple[str, ...]]:
    """Return the T + 1 time steps of a sentence of T words: input and target forward, then input and target backward.

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
        self.streams = streams
        self.window = window
        super().__init__(
            reader,
            data_path,
            steps_per_batch=streams * window,
            sizes={"streams": streams, "window": window},
            shuffle=shuffle,
            seed=seed,
            batches_per_epoch=batches_per_epoch,
        )

    def rewind(self, state: Optional[dict[str, Any]] = None) -> None:
        """Go to the place of a state, with what it has left of each stream, or to the start of the text."""
        super().rewind(state)
        # Every process keeps the streams of all, so that each stream gets the sentences that it gets in a single one.
        rest = state or {"streams": [()] * (self.streams * self.world_size), "windows_left": 0}
        self._rest = list(map(deque, rest["streams"]))
        self._windows_left: int = rest["windows_left"]

    def state_dict(self) -> dict[str, Any]:
        """As in `ShardsLoader`, with what is left of each stream, and at the end of a pass of its windows."""
        return super().state_dict() | {"streams": list(map(list, self._rest)), "windows_left": self._windows_left}

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
            for stream in self._rest:
                while len(stream) < self.window and (sentence := next(sentences, None)) is not None:
                    stream.extend(steps(sentence))
            lengths = list(map(len, self._rest))
            if not any(lengths):
                return
            if self.endless and not self._windows_left and min(lengths) < self.window:
                self._windows_left = ceil(sum(lengths) / self.steps_per_batch)
            if self._windows_left:
                parts = [ceil(length / self._windows_left) for length in lengths]
                self._windows_left -= 1
            else:
                parts = [min(self.window, length) for length in lengths]
            windows = [[stream.popleft() for _ in range(part)] for stream, part in zip(self._rest, parts, strict=True)]
            own = windows[self.rank * self.streams :][: self.streams]
            yield {"windows": {**self._to_ids(own), "first": self._n_yielded == 0}}

    def _to_ids(self, windows: list[list[tuple[str, ...]]]) -> dict[str, Any]:
        width = max(self.window, *map(len, windows))
        columns = [list(zip(*window, strict=True)) or [()] * 4 for window in windows]  # of each window
        inputs, targets, backward_inputs, backward_targets = zip(*columns, strict=True)
        return {
            direction: {
                "characters": self.word_ids.characters(read, width),  # (S, U, C)
                "words": self.word_ids.words(read, width),  # (S, U)
                "targets": self.word_ids.words(predicted, width),  # (S, U)
            }
            for direction, read, predicted in (
                ("forward", inputs, targets),
                ("backward", backward_inputs, backward_targets),
            )
        }


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
        super().__init__(
            reader,
            data_path,
            steps_per_batch=1,
            sizes={"max_tokens": max_tokens, "max_sentence_length": max_sentence_length},
            shuffle=shuffle,
            seed=seed,
            batches_per_epoch=batches_per_epoch,
        )

    def items(self, lines: list[str]) -> list[list[list[str]]]:
        """Divide sentences into batches of similar length, whose number does not depend on the order of the lines."""
        pieces = list(split_sentences(map(split_tokens, lines), self.max_sentence_length, self.data_path))
        batches = length_batches(list(map(len, pieces)), self.max_tokens, boundaries=1)
        return [[pieces[index] for index in batch] for batch in batches]

    def read_pass(self) -> Iterator[dict[str, Any]]:
        """Yield the batches that this process takes."""
        batches = self.read_items()
        while step := list(islice(batches, self.world_size)):
            while len(step) < self.world_size:  # at the end of a pass the processes divide what is left
                most = step.pop(max(range(len(step)), key=lambda number: len(step[number])))
                step += [most[: len(most) // 2], most[len(most) // 2 :]]
            yield {"tokens": self.word_ids.of_sentences(step[self.rank])}
