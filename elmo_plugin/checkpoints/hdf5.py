"""Read hdf5 files of weights in pure Python, so that no file can crash the process, hang it or fill the memory.

The HDF5 library is written in C and has a history of memory errors in damaged files. Limits on a child process would
stop a crash or a hang, but not code that a file injects. pyfive is written in Python, but a limit on what it reads does
not limit its memory (docs/understand/reliability.md). This reader limits the size of the structures that it reads, and
with that its time and memory.

It reads contiguous and chunked arrays of IEEE numbers, with every version of superblock, object header and group. This
is what bilm-tf and h5py write, except for the chunks of h5py's `libver="latest"`. Links are rejected.
"""

import zlib
from math import ceil, prod
from struct import error as StructError
from struct import unpack_from
from typing import BinaryIO, Optional, Union

import numpy as np

from elmo_plugin.checkpoints.hdf5_structures import (
    ATTRIBUTE,
    EXTERNAL,
    FILTERS,
    LAYOUT,
    LONGEST_NAME,
    SPACE,
    TYPE,
    Bytes,
    Hdf5Error,
    Link,
    Message,
    links,
    messages,
    root_group,
    tree,
)

COMPACT, CONTIGUOUS, CHUNKED, VIRTUAL = 0, 1, 2, 3
"""The classes of a layout."""
WHOLE, FLOAT = 0, 1
"""The classes of a number type."""
FLOATS = {(2, 0, 16, 10, 5, 0, 10, 15), (4, 0, 32, 23, 8, 0, 23, 127), (8, 0, 64, 52, 11, 0, 52, 1023)}
"""Size, bit offset, precision, position and size of the exponent, the same of the mantissa, and exponent bias."""
GZIP, SHUFFLE, LZF = 1, 2, 32000
"""The filters that this reader can undo."""
MOST_FILTERS = 3
REWRITE = "rewrite the file with `h5repack -l CONTI -f NONE`"
HDF5_ERRORS = (ValueError, IndexError, StructError, zlib.error)
"""What reading a damaged or unsupported file raises. The message of a `ValueError` is for users."""


def read_datasets(stream: BinaryIO) -> dict[str, "Dataset"]:
    """Return the datasets of a file by path. Their numbers are read on demand, so the stream must stay open.

    Raises one of `HDF5_ERRORS` for a file that cannot be read, and for one with soft or external links.
    """
    file, found = Bytes(stream), {}
    unread: list[Link] = [("", root_group(file))]
    while unread:
        path, target = unread.pop()
        if isinstance(target, str):
            raise Hdf5Error(f"'{path}' is a link to {target}")
        content = list(messages(file, target))
        if any(kind == SPACE for kind, _ in content):
            found[path] = Dataset(file, content)
            continue
        for name, below in links(file, content):
            full = f"{path}/{name}" if path else name
            if len(full) > LONGEST_NAME:
                raise Hdf5Error(f"expected names of at most {LONGEST_NAME} characters, got '{full[:50]}…'")
            unread.append((full, below))
    return found


class Dataset:
    """An array in a file. Its shape is read at once, its numbers on demand."""

    def __init__(self, file: Bytes, content: list[Message]) -> None:
        self._file, self._content = file, content
        self._message = dict(reversed(content))
        space = self._message[SPACE]
        self.shape: tuple[int, ...] = unpack_from(f"<{space[1]}Q", space, 8 if space[0] == 1 else 4)

    def numbers(self) -> np.ndarray:
        """Return the numbers as a new array of float32. Check `shape` first: it decides how much memory this takes.

        Raises one of `HDF5_ERRORS` if the numbers cannot be read.
        """
        if not {TYPE, LAYOUT} <= self._message.keys():
            raise Hdf5Error("the array has no numbers")
        dtype, layout = _dtype(self._message[TYPE]), self._message[LAYOUT]
        version, kind = layout[0], layout[1]
        if EXTERNAL in self._message or kind == VIRTUAL:
            raise Hdf5Error("the numbers are in another file")
        if version == 3 and kind == CHUNKED:
            return self._chunks(dtype)
        if version not in (3, 4) or kind not in (COMPACT, CONTIGUOUS):
            raise Hdf5Error(f"expected a contiguous array, or chunks in the layout of HDF5 1.8; {REWRITE}")
        if kind == CONTIGUOUS:
            content = self._file.numbers(unpack_from("<Q", layout, 2)[0], prod(self.shape) * dtype.itemsize)
        else:
            content = memoryview(bytearray(layout[4 : 4 + unpack_from("<H", layout, 2)[0]]))
        with np.errstate(over="ignore"):  # numbers too large for float32 become infinite
            return np.frombuffer(content, dtype).reshape(self.shape).astype(np.float32, copy=False)

    def attribute(self, name: str) -> Optional[int]:
        """Return the value of an attribute that is an unsigned integer, or `None` if there is none of that name."""
        for body in (body for kind, body in self._content if kind == ATTRIBUTE):
            version, *sizes = unpack_from("<BxHHH", body)
            at, step = 9 if version == 3 else 8, 8 if version == 1 else 1
            parts = []
            for size in sizes:  # of the name, the type and the shape
                parts.append(body[at : at + size])
                at += ceil(size / step) * step
            if parts[0].rstrip(b"\0") == name.encode() and parts[1][0] & 15 == WHOLE:
                value = body[at : at + unpack_from("<I", parts[1], 4)[0]]
                return int.from_bytes(value, "big" if parts[1][1] & 1 else "little")
        return None

    def _chunks(self, dtype: "np.dtype[np.floating]") -> np.ndarray:
        """Read the numbers of a chunked array. The index must hold each chunk exactly once."""
        rank, index = unpack_from("<BQ", self._message[LAYOUT], 2)
        *chunk, itemsize = unpack_from(f"<{rank}I", self._message[LAYOUT], 11)
        grid = [range(0, whole, step) for whole, step in zip(self.shape, chunk, strict=True)]
        if itemsize != dtype.itemsize or any(step > whole for whole, step in zip(self.shape, chunk, strict=True)):
            raise Hdf5Error(f"expected chunks that fit into the shape {self.shape}, got {chunk}")
        filters, size = _filters(self._message.get(FILTERS)), prod(chunk) * itemsize
        numbers, seen = np.empty(self.shape, np.float32), set()
        for key, address in tree(self._file, index, 1, 8 + 8 * rank):
            stored, skipped, *start = unpack_from(f"<II{rank - 1}Q", key)
            is_in_grid = all(at in starts for at, starts in zip(start, grid, strict=True))
            if not is_in_grid or tuple(start) in seen or stored > 2 * size + 1024:
                raise Hdf5Error(f"the index of the chunks is damaged at {start}")
            seen.add(tuple(start))
            content: Union[bytes, memoryview] = self._file.numbers(address, stored)
            for number, filter in reversed(list(enumerate(filters))):
                if not skipped >> number & 1:
                    content = _undo(filter, content, size, itemsize)
            part = numbers[tuple(slice(at, at + step) for at, step in zip(start, chunk, strict=True))]
            with np.errstate(over="ignore"):
                part[...] = np.frombuffer(content, dtype).reshape(chunk)[tuple(map(slice, part.shape))]
        if len(seen) != prod(map(len, grid)):
            raise Hdf5Error(f"expected {prod(map(len, grid))} chunks, got {len(seen)}")
        return numbers


def _dtype(message: bytes) -> "np.dtype[np.floating]":
    """Return the type of the numbers (IV.A.2.d, The Datatype Message)."""
    if message[0] & 15 != FLOAT or message[1] & 64 or unpack_from("<IHHBBBBI", message, 4) not in FLOATS:
        raise Hdf5Error("expected floating-point numbers of 16, 32 or 64 bits, got others")
    return np.dtype(f"{'>' if message[1] & 1 else '<'}f{message[4]}")


def _filters(message: Optional[bytes]) -> list[int]:
    """Return the filters in the order in which they were applied (IV.A.2.l, The Filter Pipeline Message)."""
    if message is None:
        return []
    version, count = message[0], message[1]
    filters, at = [], 8 if version == 1 else 2
    for _ in range(count):
        (filter,) = unpack_from("<H", message, at)
        has_name = version == 1 or filter > 255
        length = unpack_from("<H", message, at + 2)[0] if has_name else 0
        at += 8 if has_name else 6
        (values,) = unpack_from("<H", message, at - 2)
        at += ceil(length / 8) * 8 + 4 * (values + values % 2) if version == 1 else length + 4 * values
        filters.append(filter)
    if count > MOST_FILTERS or not set(filters) <= {GZIP, SHUFFLE, LZF}:
        raise Hdf5Error(
            f"expected at most {MOST_FILTERS} filters, of gzip, lzf and shuffle, got the filters {filters}; {REWRITE}"
        )
    return filters


def _undo(filter: int, content: Union[bytes, memoryview], size: int, itemsize: int) -> bytes:
    """Return the bytes that a filter was applied to. They are cut off soon after `size` bytes."""
    if filter == GZIP:
        return zlib.decompressobj().decompress(content, size + 1)
    if filter == SHUFFLE:
        return np.frombuffer(content, np.uint8).reshape(itemsize, -1).T.tobytes()
    unpacked, at = bytearray(), 0
    while at < len(content) and len(unpacked) < size:
        code = content[at]
        length, at = (code >> 5) + 2, at + 1
        if code < 32:  # code + 1 literal bytes follow
            unpacked += content[at : at + code + 1]
            at += code + 1
            continue
        if length == 9:
            length, at = length + content[at], at + 1
        start = len(unpacked) - ((code & 31) << 8) - content[at] - 1
        if start < 0:
            raise Hdf5Error("the compressed numbers are damaged")
        at += 1
        for place in range(start, start + length):  # byte by byte, because the copy may overlap its source
            unpacked.append(unpacked[place])
    return bytes(unpacked)
