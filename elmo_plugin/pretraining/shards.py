"""Text shards: one tokenised sentence a line, plain, .gz or .xz, read in constant memory and from any position on."""

from collections.abc import Iterator
from functools import cached_property
from glob import glob
from itertools import chain, count, islice
from os.path import expanduser
from pathlib import Path
from random import Random
from typing import NamedTuple, final

from allennlp.common.checks import ConfigurationError
from allennlp.common.tqdm import Tqdm

from elmo_plugin.text import TextFile

BLOCK = 65536
"""Sentences that are shuffled together, and so the most of them that are in memory at once."""
Position = tuple[int, int]
"""A place in a pass: how many shards lie behind it, and how many sentences of the shard that it lies in."""


class Counts(NamedTuple):
    """How large a corpus is. Sentence boundaries are no tokens."""

    sentences: int
    tokens: int


def find_shards(pattern: str) -> list[Path]:
    """The files that a path or a pattern (`*`, `?`, `[…]`, `**` for any depth) names, sorted.

    Raises `ConfigurationError` when there is none, with what lies where the pattern stops to be true.
    """
    pattern = expanduser(pattern)
    if Path(pattern).is_file():  # a name may hold a bracket itself
        return [Path(pattern)]
    shards = sorted({Path(path) for path in glob(pattern, recursive=True) if Path(path).is_file()})
    if not shards:
        raise ConfigurationError(f"'{pattern}' matches no file; {_deepest_folder(Path(pattern))}")
    return shards


def read_lines(shard: Path) -> Iterator[str]:
    """The lines of a shard that hold a token; `line.split()` are its tokens.

    Raises `ConfigurationError` for a shard that cannot be read to its end, for a line that is no UTF-8 text, and for
    a shard without tokens.
    """
    found_any = False
    for line in TextFile(shard).lines():
        if line and not line.isspace():
            found_any = True
            yield line
    if not found_any:
        raise ConfigurationError(f"{shard}: found no tokens; wanted one sentence a line")


@final
class SentenceStream:
    """The sentences of a corpus, one pass after another, each pass the same whenever it is read.

    With `shuffle`, a pass goes through the shards in an order of its own, and through each in blocks of `BLOCK`
    sentences that are shuffled: a reader holds one block, and to go on where another stopped it rereads one shard.
    """

    def __init__(self, shards: list[Path], shuffle: bool, seed: int = 0) -> None:
        if not shards:
            raise ConfigurationError("'shards' is empty; wanted one file or more")
        self.shards = shards
        self.shuffle = shuffle
        self.seed = seed

    def sentences(self, epoch: int, start: Position = (0, 0)) -> Iterator[tuple[list[str], Position]]:
        """The tokens of each sentence of one pass, with the position after it.

        A pass that starts at such a position, over the same shards, is the rest of the pass that gave it.
        """
        first, skipped = start
        for behind, shard in enumerate(self._order(epoch)[first:], first):
            for read, line in enumerate(self._lines(epoch, shard, skipped), skipped + 1):
                yield line.split(), (behind, read)
            skipped = 0

    def count(self) -> Counts:
        """How many sentences and tokens a pass has: read once, then remembered."""
        return self._counts

    @cached_property
    def _counts(self) -> Counts:
        sentences = tokens = 0
        lines = chain.from_iterable(map(read_lines, self.shards))
        for line in Tqdm.tqdm(lines, desc="counting tokens", unit=" sentences"):
            sentences += 1
            tokens += len(line.split())
        return Counts(sentences, tokens)

    def _order(self, epoch: int) -> list[int]:
        order = list(range(len(self.shards)))
        if self.shuffle:
            Random(f"{self.seed} {epoch}").shuffle(order)  # a string: its hash is the same in every process
        return order

    def _lines(self, epoch: int, shard: int, skipped: int) -> Iterator[str]:
        lines = read_lines(self.shards[shard])
        if not self.shuffle:
            yield from islice(lines, skipped, None)
            return
        blocks_behind, skipped = divmod(skipped, BLOCK)
        lines = islice(lines, blocks_behind * BLOCK, None)
        for number in count(blocks_behind):
            block = list(islice(lines, BLOCK))
            if not block:
                return
            Random(f"{self.seed} {epoch} {shard} {number}").shuffle(block)
            yield from islice(block, skipped, None)
            skipped = 0


def _deepest_folder(path: Path) -> str:
    """What the deepest folder on the way to a path holds, for an error."""
    folder = next(folder for folder in (path, *path.parents) if folder.is_dir())
    names = sorted(entry.name for entry in folder.iterdir())
    held = ", ".join(names[:5]) + ", …" * (len(names) > 5)
    return f"the folder '{folder.absolute()}' holds {held or 'nothing'}"
