"""The hdf5 reader: it reads the same numbers as h5py from files of every kind, and rejects malicious files."""

import io
import struct
import zlib
from itertools import product
from typing import Any

import h5py
import numpy as np
import pytest

from elmo_plugin.checkpoints.hdf5 import HDF5_ERRORS, Hdf5Error, read_datasets
from tests.checkpoints.file_tools import flipped, max_memory

NUMBERS = np.random.default_rng(0).normal(size=(13, 50)) * 100
FILTERS: list[dict[str, Any]] = [
    {},
    {"chunks": (5, 50)},
    {"chunks": (13, 50)},
    {"chunks": (1, 3), "compression": "gzip"},
    {"chunks": (4, 16), "compression": "gzip", "shuffle": True},
    {"chunks": (4, 16), "compression": "lzf"},
    {"chunks": (13, 50), "compression": "lzf", "shuffle": True},
]
TYPES = [f"{order}f{size}" for order, size in product("<>", (2, 4, 8))]


def in_memory(write: Any, **keys: Any) -> io.BytesIO:
    """Return a file that `write` fills."""
    stream = io.BytesIO()
    with h5py.File(stream, "w", **keys) as file:
        write(file)
    return stream


@pytest.mark.parametrize("libver", ["earliest", "v108", "v110", "latest"])
@pytest.mark.parametrize("dtype", TYPES)
def test_h5py_reads_the_same_numbers(libver: str, dtype: str) -> None:
    layouts = FILTERS if libver in ("earliest", "v108") else FILTERS[:1]

    def write(file: h5py.File) -> None:
        for number, layout in enumerate(layouts):
            dataset = file.create_dataset(f"group/{number}/array", data=NUMBERS.astype(dtype), **layout)
            dataset.attrs["text"], dataset.attrs["fixed"], dataset.attrs["sum"] = "a", np.bytes_("b"), 2**32 - 1
        file["scalar"] = np.asarray(1.5, dtype)
        file["zeros"] = np.zeros((8, 300), dtype)
        file["text"] = "not numbers"
        file["empty"] = h5py.Empty("f4")

    stream = in_memory(write, libver=libver)
    datasets = read_datasets(stream)
    with h5py.File(stream, "r") as file:
        for number in range(len(layouts)):
            expected, found = file[f"group/{number}/array"], datasets[f"group/{number}/array"]
            assert found.shape == expected.shape and found.attribute("sum") == 2**32 - 1
            assert found.attribute("text") is found.attribute("none") is None
            numbers = found.numbers()
            assert numbers.dtype == np.float32 and numbers.flags.writeable
            np.testing.assert_array_equal(numbers, expected[...].astype(np.float32))
    assert datasets["scalar"].numbers() == 1.5 and datasets["scalar"].shape == ()
    assert not datasets["zeros"].numbers().any()
    for name in ("text", "empty"):
        with pytest.raises(HDF5_ERRORS):
            datasets[name].numbers()


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("count", [1, 9, 45])
def test_all_names_of_a_group_are_found(libver: str, count: int) -> None:
    names = {f"a group/ï{number}" for number in range(count)}

    def write(file: h5py.File) -> None:
        for name in names:
            file[name] = np.float32([len(name)])

    assert read_datasets(in_memory(write, libver=libver)).keys() == names


def test_a_large_group_and_a_large_index_of_chunks_are_read() -> None:
    """Both trees have inner nodes."""

    def write(file: h5py.File) -> None:
        for number in range(500):
            file[f"group/{number}"] = [float(number)]
        file.create_dataset("chunks", data=NUMBERS, chunks=(1, 1))

    datasets = read_datasets(in_memory(write))
    assert len(datasets) == 501 and datasets["group/321"].numbers() == 321
    np.testing.assert_array_equal(datasets["chunks"].numbers(), NUMBERS.astype(np.float32))


def bfloat16() -> h5py.Datatype:
    """Return a number type that NumPy does not have."""
    its_type = h5py.h5t.IEEE_F32LE.copy()
    its_type.set_fields(15, 7, 8, 0, 7)
    its_type.set_size(2)
    return its_type


def write_bfloat16(file: h5py.File) -> None:
    h5py.h5d.create(file.id, b"array", bfloat16(), h5py.h5s.create_simple((4,)))


@pytest.mark.parametrize(
    ("write", "keys", "fact"),
    [
        (lambda file: file.create_dataset("array", data=NUMBERS, chunks=(4, 8)), {"libver": "latest"}, "h5repack"),
        (lambda file: file.create_dataset("array", data=NUMBERS, chunks=(4, 8), fletcher32=True), {}, "h5repack"),
        (lambda file: file.create_dataset("array", (3,), "f4", chunks=(4,), maxshape=(None,)), {}, "chunks"),
        (lambda file: file.create_dataset("array", (3,), "f4"), {}, "the file ends"),
        (lambda file: file.create_dataset("array", data=[1, 2]), {}, "floating-point"),
        (write_bfloat16, {}, "floating-point"),
    ],
    ids=["new chunks", "fletcher32", "chunks beyond the shape", "no numbers", "whole numbers", "bfloat16"],
)
def test_an_unsupported_array_is_rejected_with_the_reason(write: Any, keys: dict[str, Any], fact: str) -> None:
    dataset = read_datasets(in_memory(write, **keys))["array"]
    with pytest.raises(Hdf5Error, match=fact):
        dataset.numbers()


def test_links_are_not_followed() -> None:
    for link in (h5py.SoftLink("/array"), h5py.ExternalLink("/etc/passwd", "array")):
        stream = in_memory(lambda file, link=link: file.update({"array": 1.0, "group/link": link}))
        with pytest.raises(Hdf5Error, match="'group/link' is a link to"):
            read_datasets(stream)


def superblock(root: int) -> bytes:
    """Return the first 48 bytes of a file of HDF5 1.10."""
    return struct.pack("<8sBBBBQQQQI", b"\x89HDF\r\n\x1a\n", 3, 8, 8, 0, 0, 2**64 - 1, 0, root, 0)


def message(kind: int, body: bytes) -> bytes:
    """Return a message of an object header."""
    return struct.pack("<BHB", kind, len(body), 0) + body


def header(*messages: bytes) -> bytes:
    """Return the header of an object with its messages."""
    body = b"".join(messages)
    return struct.pack("<4sBBI", b"OHDR", 2, 2, len(body)) + body


def header_that_goes_on_in_itself() -> bytes:
    """Return a file of 107 bytes with an object header that continues in itself."""
    chain = message(0x10, struct.pack("<QQ", 48 + 34, 28))
    return superblock(48) + header(chain) + b"OCHK" + chain + bytes(4)


def group_in_itself(name: bytes, copies: int) -> bytes:
    """Return a file whose root group has several links to itself."""
    link = b"\x01\x00" + bytes([len(name)]) + name + struct.pack("<Q", 48)
    return superblock(48) + header(*[message(6, link)] * copies)


def tree_of_one_node() -> bytes:
    """Return a file whose B-tree of names has one node that is its own child, 65,535 times and on 255 levels."""
    tables = message(0x11, struct.pack("<QQ", 48 + 30, 48 + 30 + 24 + 65535 * 16))
    node = struct.pack("<4sBBHQQ", b"TREE", 0, 255, 65535, 0, 0) + struct.pack("<QQ", 0, 48 + 30) * 65535
    return superblock(48) + header(tables) + node + struct.pack("<4sIQQQ", b"HEAP", 0, 0, 0, 0)


def names_of_one_heap() -> bytes:
    """Return a file of 100,000 names, each of which extends to the end of the heap."""
    tree, node = 48 + 30, 48 + 30 + 24 + 16 * 2
    heap = node + 8 + 50_000 * 40
    tables = message(0x11, struct.pack("<QQ", tree, heap))
    its_tree = struct.pack("<4sBBHQQ", b"TREE", 0, 0, 2, 0, 0) + struct.pack("<QQ", 0, node) * 2
    symbols = b"SNOD" + struct.pack("<BBH", 1, 0, 50_000)
    symbols += b"".join(struct.pack("<QQIIQQ", at, 10, 0, 0, 0, 0) for at in range(50_000))
    return (
        superblock(48)
        + header(tables)
        + its_tree
        + symbols
        + struct.pack("<4sIQQQ", b"HEAP", 0, 100_000, 0, heap + 32)
        + b"a" * 100_000
    )


@pytest.mark.parametrize(
    "content",
    [
        header_that_goes_on_in_itself(),
        group_in_itself(b"a", 3),
        group_in_itself(b"", 1),
        tree_of_one_node(),
        names_of_one_heap(),
    ],
    ids=["header", "groups", "group without a name", "tree", "names"],
)
def test_structures_that_lead_in_circles_are_rejected(content: bytes) -> None:
    with pytest.raises(HDF5_ERRORS):
        read_datasets(io.BytesIO(content))


def chunked(
    shape: tuple[int, ...], chunk: tuple[int, ...], stored: bytes, filters: list[int], places: list[tuple[int, ...]]
) -> bytes:
    """Return a file with a dataset whose chunks are all the same bytes."""
    rank = len(chunk) + 1
    space = struct.pack(f"<BBBB{len(shape)}Q", 2, len(shape), 0, 1, *shape)
    number = struct.pack("<BBBBIHHBBBBI", 0x11, 0x20, 31, 0, 4, 0, 32, 23, 8, 0, 23, 127)
    pipeline = struct.pack("<BB", 2, len(filters)) + b"".join(struct.pack("<HHH", each, 0, 0) for each in filters)
    link_size = 4 + 3 + 5 + 8
    dataset_at = 48 + 10 + link_size
    root = header(message(6, b"\x01\x00\x05array" + struct.pack("<Q", dataset_at)))
    size = len(header(message(1, space), message(3, number), message(11, pipeline))) + 4 + 11 + 4 * rank
    tree, data = dataset_at + size, dataset_at + size + 24 + len(places) * (16 + 8 * rank)
    layout = struct.pack(f"<BBBQ{rank}I", 3, 2, rank, tree, *chunk, 4)
    node = struct.pack("<4sBBHQQ", b"TREE", 1, 0, len(places), 0, 0)
    node += b"".join(struct.pack(f"<II{rank}QQ", len(stored), 0, *place, 0, data) for place in places)
    its_header = header(message(1, space), message(3, number), message(11, pipeline), message(8, layout))
    assert len(its_header) == size and len(root) == 10 + link_size
    return superblock(48) + root + its_header + node + stored


def numbers_of(content: bytes) -> np.ndarray:
    return read_datasets(io.BytesIO(content))["array"].numbers()


ONES = np.ones(6, "<f4").tobytes()
PLACES = [(0, 0), (2, 0)]


def test_a_file_made_by_hand_is_read() -> None:
    """The builder makes valid files, so the next test fails only for the damage that it names."""
    assert (numbers_of(chunked((4, 3), (2, 3), ONES, [], PLACES)) == np.ones((4, 3))).all()
    assert (numbers_of(chunked((4, 3), (2, 3), zlib.compress(ONES), [1], PLACES)) == np.ones((4, 3))).all()


BOMB = zlib.compress(bytes(2**26))
DAMAGED_CHUNKS = {
    "a bomb": chunked((4, 3), (2, 3), BOMB, [1], PLACES),
    "a bomb in a bomb": chunked((4, 3), (2, 3), zlib.compress(BOMB), [1, 1], PLACES),
    "200 filters": chunked((4, 3), (2, 3), zlib.compress(ONES), [1] * 200, PLACES),
    "large chunks": chunked((4, 3), (2**31, 2**31), ONES, [], [(0, 0)]),
    "chunks longer than the array": chunked((4, 3), (2, 3), ONES * 2**20, [], PLACES),
    "a chunk twice": chunked((4, 3), (2, 3), ONES, [], [(0, 0)] * 2),
    "a chunk beside the array": chunked((4, 3), (2, 3), ONES, [], [(0, 0), (4, 0)]),
    "a chunk between others": chunked((4, 3), (2, 3), ONES, [], [(0, 0), (1, 0)]),
    "a chunk that is missing": chunked((4, 3), (2, 3), ONES, [], [(0, 0)]),
    "chunks of nothing": chunked((4, 3), (0, 3), ONES, [], [(0, 0)]),
    "chunks of another rank": chunked((4, 3), (2,), ONES, [], [(0,)]),
    "an unknown filter": chunked((4, 3), (2, 3), ONES, [2, 4], PLACES),
}
"""Files whose chunks do not fit the array, or would take much more memory than the array."""


@pytest.mark.parametrize("content", DAMAGED_CHUNKS.values(), ids=DAMAGED_CHUNKS)
def test_chunks_that_do_not_fit_the_array_are_rejected(content: bytes) -> None:
    before = max_memory()
    with pytest.raises(HDF5_ERRORS):
        numbers_of(content)
    assert max_memory() - before < 2**25


def test_a_flipped_bit_anywhere_is_an_error_or_does_no_harm() -> None:
    """The file has every kind of structure."""

    def write(file: h5py.File) -> None:
        for number, layout in enumerate(FILTERS):
            file.create_dataset(
                f"group/{number}",
                data=NUMBERS[:4, :16].astype("<f4"),
                **{**layout, **({"chunks": (2, 8)} if layout else {})},
            )

    content = in_memory(write).getvalue()
    names = read_datasets(io.BytesIO(content)).keys()
    for at in range(0, len(content), 17):
        try:
            datasets = read_datasets(io.BytesIO(flipped(content, at, at % 8)))
            for dataset in (datasets[name] for name in names & datasets.keys() if np.prod(datasets[name].shape) < 1e6):
                dataset.numbers()
        except HDF5_ERRORS:
            pass
