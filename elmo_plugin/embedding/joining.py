"""Join part files into one file without a second copy of them on the disk."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np
from allennlp.common import Tqdm

from elmo_plugin.common import atomic_file

JOINED, PLAN = "joined", "plan"
"""The file that the parts are moved into, and the file that says where each piece of them goes."""
COPIES = 32
"""At most 1/`COPIES` of the output is on the disk twice."""
LARGEST_COPY = 2**20
"""The most bytes of a piece that are in memory at a time."""

Pieces = list[tuple[int, int, int]]
"""For each piece of a part: its position in the part, its position in the output, and its length in bytes."""
LayOut = Callable[[Path, Callable[[Pieces], None]], None]


def join_parts(parts: Path, target: Path, lay_out: LayOut, progress: bool) -> None:
    """Move the pieces of all parts in a folder to their places in one file, then rename the file to `target`.

    `lay_out(path, add)` writes a file with holes where the pieces belong, which take no room on the disk, and calls
    `add` with the pieces of each part. Once the plan of all pieces is on the disk, that step is not repeated. The
    pieces of a part are then copied, last one first, and the part is truncated once the disk holds the copies.

    The next call therefore finishes the work of one that is killed or raises `OSError`: each piece is either still in
    its part, and is copied to the same place again, or already in the file. A part that was moved is an empty file.
    """
    joined, plan = parts.with_name(JOINED), parts.with_name(PLAN)
    if not plan.exists():
        with atomic_file(plan) as partial, partial.open("wb") as pieces:
            lay_out(joined, lambda of_part: np.save(pieces, np.array(of_part, np.int64).reshape(-1, 3)))
            with joined.open("rb") as file:
                os.fsync(file.fileno())
    with plan.open("rb") as pieces, joined.open("r+b") as file:
        largest = max(joined.stat().st_size // COPIES, 4096)
        for part in Tqdm.tqdm(sorted(parts.iterdir()), desc="writing", unit=" parts", disable=not progress):
            with part.open("r+b") as source:
                _move(source, file, np.load(pieces).tolist(), largest)
    os.replace(joined, target)


def _move(source: BinaryIO, target: BinaryIO, pieces: Pieces, largest: int) -> None:
    """Move the pieces of a part, last one first. The part is truncated after every `largest` bytes."""
    step = min(largest, LARGEST_COPY)
    end = cut = source.seek(0, os.SEEK_END)
    for start, position, size in sorted(pieces, reverse=True):
        for offset in reversed(range(0, size, step)):
            if start + offset >= end:
                continue  # an earlier call moved it and was killed
            source.seek(start + offset)
            target.seek(position + offset)
            target.write(source.read(min(step, size - offset)))
            if cut - (start + offset) >= largest:
                cut = _cut(source, target, start + offset)
    _cut(source, target, 0)


def _cut(source: BinaryIO, target: BinaryIO, length: int) -> int:
    """Wait until the disk holds the target, then truncate the source to `length`, and return the length."""
    target.flush()
    os.fsync(target.fileno())
    source.truncate(length)
    return length
