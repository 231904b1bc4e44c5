"""Read the structures of an hdf5 file that lead to its arrays: superblock, object headers, groups and B-trees.

Source: HDF5 File Format Specification, version 3.0. The docstrings name its sections.
"""

from bisect import bisect_right
from collections.abc import Iterator
from math import ceil
from os import SEEK_END
from struct import iter_unpack, unpack_from
from typing import BinaryIO, Union

import numpy as np

SIGNATURE = b"\x89HDF\r\n\x1a\n"
UNDEFINED = 2**64 - 1
"""The address of something that does not exist."""
MOST_STRUCTURES = 2**22
"""The limit in bytes. The original model has 25,000 bytes of structures; an array of 100,000 chunks has this many."""
LONGEST_NAME = 255
SPACE, LINK_INFO, TYPE, LINK, EXTERNAL, LAYOUT = 0x01, 0x02, 0x03, 0x06, 0x07, 0x08
FILTERS, ATTRIBUTE, CONTINUATION, SYMBOL_TABLE = 0x0B, 0x0C, 0x10, 0x11
KINDS = (SPACE, LINK_INFO, TYPE, LINK, EXTERNAL, LAYOUT, FILTERS, ATTRIBUTE, SYMBOL_TABLE)
"""The types of messages that are used. The others hold modification times, fill values and the like."""

Message = tuple[int, bytes]
Link = tuple[str, Union[int, str]]
"""A name in a group, and the address of its object; for a soft or external link, a description of its target."""


class Hdf5Error(ValueError):
    """Raised for a damaged or unsupported file. The message does not name the file."""


class Bytes:
    """Read the bytes of a file, with a limit on the total size of the structures read.

    Structures may overlap and refer to each other in circles. Time and memory are proportional to the bytes read, so
    the limit bounds both.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.size = stream.seek(0, SEEK_END)
        self._budget = MOST_STRUCTURES

    def structure(self, address: int, size: int) -> bytes:
        """Return the bytes of a structure. Raises `Hdf5Error` past the end of the file or beyond the limit."""
        self._budget -= size
        if self._budget < 0:
            raise Hdf5Error(f"expected at most {MOST_STRUCTURES:,} bytes of structures, got more")
        return bytes(self.numbers(address, size))

    def numbers(self, address: int, size: int) -> memoryview:
        """Return the bytes of an array. Raises `Hdf5Error` past the end of the file."""
        if address + size > self.size:
            raise Hdf5Error(f"expected {size:,} bytes at {address:,}, but the file ends at {self.size:,}")
        self._stream.seek(address)
        content = np.empty(size, np.uint8).data
        if self._stream.readinto(content) != size:  # type: ignore[attr-defined]
            raise Hdf5Error("the file became shorter while it was read")
        return content


def root_group(file: Bytes) -> int:
    """Return the address of the root group (II, Superblock)."""
    start = file.structure(0, 9)
    version = start[8]
    if start[:8] != SIGNATURE or version > 3:
        raise Hdf5Error("expected an hdf5 signature and a superblock version from 0 to 3")
    widths_at, end_at, root_at = (13, 40 + 4 * version, 64 + 4 * version) if version < 2 else (9, 28, 36)
    if file.structure(widths_at, 2) != b"\x08\x08":
        raise Hdf5Error("expected 64-bit addresses and lengths")
    end, root = (int.from_bytes(file.structure(at, 8), "little") for at in (end_at, root_at))
    if end > file.size:
        raise Hdf5Error(f"expected a file of {end:,} bytes, got {file.size:,}")
    return root


def messages(file: Bytes, address: int) -> Iterator[Message]:
    """Yield the type and the content of each message of an object (IV.A, Object Headers)."""
    start = file.structure(address, 16)
    is_new = start[:4] == b"OHDR"
    if is_new:
        flags, width = start[5], 1 << (start[5] & 3)
        at = address + 6 + (16 if flags & 32 else 0) + (4 if flags & 16 else 0)
        blocks = [(at + width, int.from_bytes(file.structure(at, width), "little"))]
        fields, header = "<BHB", 6 if flags & 4 else 4
    elif start[0] != 1:
        raise Hdf5Error(f"expected an object header at {address:,}")
    else:
        blocks = [(address + 16, unpack_from("<I", start, 8)[0])]
        fields, header = "<HHB", 8
    for number, (place, size) in enumerate(blocks):
        block = file.structure(place, size)
        if is_new and number:
            block = block[4:-4]  # without the signature and the check sum
        at = 0
        while at + header <= len(block):
            kind, length, flags = unpack_from(fields, block, at)
            content = block[at + header : at + header + length]
            at += header + length
            if at > len(block) or flags & 2:
                raise Hdf5Error(f"expected a message of {length} bytes, not shared, inside its object header")
            if kind == CONTINUATION:
                blocks.append(unpack_from("<QQ", content))
            elif kind in KINDS:
                yield kind, content


def links(file: Bytes, content: list[Message]) -> Iterator[Link]:
    """Yield the links of a group, given the messages of the group."""
    for kind, body in content:
        if kind == SYMBOL_TABLE:
            yield from _symbol_table(file, *unpack_from("<QQ", body))
        elif kind == LINK:
            yield _link(body)
        elif kind == LINK_INFO:
            heap, index = unpack_from("<QQ", body, 10 if body[1] & 1 else 2)
            if heap != UNDEFINED:
                yield from _indexed_links(file, heap, index)


def tree(file: Bytes, address: int, kind: int, key_size: int) -> Iterator[tuple[bytes, int]]:
    """Yield each key of a B-tree and the address that belongs to it (III.A.1, Version 1 B-trees)."""
    nodes = [address]
    while nodes:
        address = nodes.pop()
        signature, its_kind, level, count = unpack_from("<4sBBH", file.structure(address, 24))
        if signature != b"TREE" or its_kind != kind:
            raise Hdf5Error(f"expected a B-tree node at {address:,}")
        entries = file.structure(address + 24, count * (key_size + 8))
        for key, below in iter_unpack(f"<{key_size}sQ", entries):
            if level:
                nodes.append(below)
            else:
                yield key, below


def _symbol_table(file: Bytes, index: int, heap: int) -> Iterator[Link]:
    """Yield the links of a group as HDF5 1.6 writes it (III.B, Symbol Table Nodes; III.D, Local Heaps)."""
    size, address = unpack_from("<Q8xQ", file.structure(heap, 32), 8)
    names = file.structure(address, size)
    for _, node in tree(file, index, 0, 8):
        signature, count = unpack_from("<4s2xH", file.structure(node, 8))
        if signature != b"SNOD":
            raise Hdf5Error(f"expected a symbol table node at {node:,}")
        for name_at, target, kind in iter_unpack("<QQI20x", file.structure(node + 8, 40 * count)):
            name = names[name_at : name_at + LONGEST_NAME].partition(b"\0")[0].decode()
            yield name, "another place" if kind == 2 else target  # a soft link


def _link(body: bytes) -> Link:
    """Return the link in a message (IV.A.2.g, The Link Message)."""
    flags, at = body[1], 2
    kind = body[at] if flags & 8 else 0
    at += (1 if flags & 8 else 0) + (8 if flags & 4 else 0) + (1 if flags & 16 else 0)
    width = 1 << (flags & 3)
    size = int.from_bytes(body[at : at + width], "little")
    name, target = body[at + width : at + width + size][:LONGEST_NAME].decode(), body[at + width + size :]
    if kind:
        return name, "another file, " * (kind == 64) + target[2:].strip(b"\0").replace(b"\0", b" ").decode()
    return name, unpack_from("<Q", target)[0]


def _indexed_links(file: Bytes, heap: int, index: int) -> Iterator[Link]:
    """Yield the links of a large group, whose messages are in a heap (III.A.2, Version 2 B-trees; III.G)."""
    signature, record, depth, root, count = unpack_from("<4s6xHH2xQH", file.structure(index, 34))
    if signature != b"BTHD" or depth:
        raise Hdf5Error(f"expected a B-tree of one level for the names of a group at {index:,}")
    width, starts, content = _heap(file, heap)
    for (key,) in iter_unpack(f"4x{record - 4}s", file.structure(root + 6, count * record)):
        place, size = (int.from_bytes(part, "little") for part in (key[1 : 1 + width], key[1 + width :]))
        block = bisect_right(starts, place) - 1
        start = place - starts[block]
        yield _link(content[block][start : start + size])


def _heap(file: Bytes, address: int) -> tuple[int, list[int], list[bytes]]:
    """Return the bytes per position in a heap, and the start and content of each block (III.G, Fractal Heap)."""
    header = file.structure(address, 142)
    columns, first, most, bits, _, root, rows = unpack_from("<HQQHHQH", header, 110)
    width = ceil(bits / 8)
    table = file.structure(root + 13 + width, 8 * rows * columns)
    places = [place for (place,) in iter_unpack("<Q", table)] if rows else [root]
    position, starts, content = 0, [], []
    for number, place in enumerate(places):
        size = first << max(number // columns - 1, 0) if rows else first
        if size > most:
            raise Hdf5Error(f"expected a heap of direct blocks only for the names of a group at {address:,}")
        if place != UNDEFINED:
            starts.append(position)
            content.append(file.structure(place, size))
        position += size
    return width, starts, content
