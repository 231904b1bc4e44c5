"""Read files of strangers: archives, pickles and texts, none of which may run code, fill the memory or take long.

Trained weights hardly compress, so a file that grows a lot when it is unpacked is malicious.
"""

import gzip
import pickletools
import re
import zipfile
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from io import SEEK_END, BufferedReader, FileIO, UnsupportedOperation
from pathlib import Path
from tarfile import TarInfo
from tempfile import TemporaryDirectory
from typing import IO, Any

import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm import BiLMOptions, count_parameters
from elmo_plugin.checkpoints.files import FileKind, file_kind
from elmo_plugin.common import printable

GROWTH = 8
"""The largest factor by which a file may grow: a number has at most eight bytes, and compresses to at least one."""
ALLOWANCE = 2**20
"""The bytes that a file may grow beyond that, because texts and headers compress well."""
LEAST_MEMBER = 4096
"""The bytes that even an empty file takes on the disk: an archive may hold a great many of them."""
MOST_FOLDERS = 20
"""The deepest path in an archive. Deleting a folder of many hundred levels exceeds Python's recursion limit."""
MOST_TEXT, MOST_LINES = 2**25, 2**21
"""The bytes and the lines of the largest vocabulary. A million words take about ten megabytes."""
MOST_HEADER = 2**16
"""The largest extended header of a tar file, which holds a long name."""
BLOCK = 512
"""The bytes of a block in a tar file."""
LONG_NAME, EXTENDED_HEADER = b"L", b"x"
REGULAR = (b"0", b"\0", b"7")
WITHOUT_CONTENT = (b"1", b"2", b"3", b"4", b"5", b"6")
"""The types of links, devices, folders and pipes, whose size means nothing."""
PACKED, OPTIONS_FILE = "fta/", "options_file"
"""The folder of an archive into which AllenNLP before 1.0 copied the files that a config names, under their keys."""

MOST_OPCODES = 500_000
"""The most instructions of a pickle. A tensor takes about thirty."""
LEGACY_PICKLES = 5
"""The pickles at the start of a file of before PyTorch 1.6: magic number, version, system, state dict, storages."""
STORAGES = ("Double", "Float", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
GLOBALS = {
    "collections OrderedDict",
    *(f"torch._utils _rebuild_{kind}" for kind in ("tensor", "tensor_v2", "parameter")),
    *(f"torch {number}Storage" for number in STORAGES),
}
"""All classes and functions that a state dict needs."""
OPCODES = re.compile(
    "PROTO|STOP|MARK|EMPTY_(DICT|LIST|TUPLE)|TUPLE[123]?|APPENDS?|SETITEMS?|BINUNICODE|(SHORT_)?BINSTRING|BININT[12]?|"
    "LONG1|BINFLOAT|NONE|NEWTRUE|NEWFALSE|(LONG_)?BIN(PUT|GET)|GLOBAL|REDUCE|BUILD|BINPERSID"
)
"""The instructions that `torch.save` writes for a state dict."""
TEXT = re.compile("BINUNICODE|(SHORT_)?BINSTRING|GLOBAL")
"""The instructions that make a text, or name a class or function."""


def check_unpacked(unpacked: int, archive: Path, name: str) -> None:
    """Raise `ConfigurationError` if content of `unpacked` bytes is too large for its archive; errors call it `name`."""
    size, most = archive.stat().st_size, _most(archive)
    if unpacked > most:
        raise ConfigurationError(
            f"'{name}': expected at most {most:,} bytes in an archive of {size:,}, got {unpacked:,} or more"
        )


def _most(archive: Path) -> int:
    """Return the largest number of bytes that an archive may unpack to."""
    return GROWTH * archive.stat().st_size + ALLOWANCE


def check_numbers(options: BiLMOptions, stored: int, name: str) -> None:
    """Raise `ConfigurationError` if the options ask for more parameters than the file `name` stores bytes."""
    parameters = count_parameters(options)
    if parameters > stored:
        raise ConfigurationError(
            f"'{name}': expected weights of at least one byte for each of the {parameters:,} parameters "
            f"that the options ask for, got {stored:,} bytes"
        )


def read_text(path: Path, name: str) -> str:
    """Return the content of a text file, which may be compressed with gzip.

    Errors call the file `name`. Raises `ConfigurationError` if it cannot be read, is too large, or is not UTF-8 text.
    """
    kind = file_kind(path)
    if kind in (FileKind.FOLDER, FileKind.DEVICE, FileKind.XZ):
        raise ConfigurationError(f"'{name}': expected a text file, got {kind.value}")
    try:
        is_gzip = kind is FileKind.GZIP
        most = min(MOST_TEXT, _most(path)) if is_gzip else MOST_TEXT
        with gzip.open(path) if is_gzip else path.open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise ConfigurationError(f"'{name}': expected at most {most:,} bytes of text, got more")
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"'{name}', line {line}: expected UTF-8 text, got {error}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigurationError(f"'{name}' cannot be read: {error}") from error


def split_lines(text: str, name: str) -> list[str]:
    """Return the lines of a vocabulary, whose last one may have a line end.

    Raises `ConfigurationError`, which calls the file `name`, if there are too many.
    """
    if text.count("\n") > MOST_LINES:
        raise ConfigurationError(f"'{name}': expected at most {MOST_LINES:,} lines, got more")
    return text.removesuffix("\n").split("\n")


@contextmanager
def printable_errors() -> Iterator[None]:
    """Make the `ConfigurationError` of files that quotes their content safe to print; see `printable`."""
    try:
        yield
    except ConfigurationError as error:
        error.message = printable(str(error.message))
        raise


@contextmanager
def unpacked(path: Path, name: str) -> Iterator[Path]:
    """Unpack a zip file or a `.tar.gz` into a temporary folder, which is deleted when the context ends.

    Errors call the file `name`. In a `ConfigurationError` that is raised while the folder is in use, that name replaces
    the folder's. Raises `ConfigurationError` for a damaged file, and for one that would grow beyond the limits.
    """
    with TemporaryDirectory(prefix="elmo_plugin-unpacked-") as folder:
        try:
            if file_kind(path) is FileKind.ZIP:
                _unpack_zip(path, Path(folder), name)
            else:
                with gzip.open(path) as stream:
                    _unpack_tar(stream, path, Path(folder), name)
        except ConfigurationError:
            raise
        except Exception as error:  # a damaged archive may raise anything
            raise ConfigurationError(f"'{name}' cannot be unpacked: {error}") from error
        try:
            yield Path(folder)
        except ConfigurationError as error:
            error.message = str(error.message).replace(folder, name)
            raise


def _unpack_zip(path: Path, folder: Path, name: str) -> None:
    with zipfile.ZipFile(path) as archive:
        size = 0
        for member in archive.infolist():
            if member.filename.count("/") > MOST_FOLDERS:
                raise ValueError(f"expected at most {MOST_FOLDERS} folders inside each other, got more")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # Python does not limit what another method unpacks to.
                raise ValueError(f"expected members compressed by deflate, got another method for '{member.filename}'")
            # Every folder counts as a file, whether it is listed or only a part of a path.
            size += max(member.file_size, LEAST_MEMBER) + LEAST_MEMBER * member.filename.count("/")
            check_unpacked(size, path, f"{name}/{member.filename}")
        archive.extractall(folder)


def _unpack_tar(stream: gzip.GzipFile, path: Path, folder: Path, name: str) -> None:
    """Write the regular files of a tar file whose paths stay inside the folder. `path` is its compressed file.

    Python's `tarfile` is not used, because sizes below zero make it loop for ever and long headers fill the memory.
    Files of `fta/` are left out, except options: they may be copies of weights that were not trained.
    """
    total, long_name = 0, ""

    def blocks(size: int) -> Iterator[bytes]:
        """Yield the content of a member, and skip its padding."""
        nonlocal total
        for start in range(0, size, ALLOWANCE):
            count = min(ALLOWANCE, size - start)
            block = stream.read(count + (-count) % BLOCK)
            if len(block) < count:
                raise ValueError("the archive is cut short")
            total += len(block)
            yield block[:count]

    while (header := stream.read(BLOCK)).strip(b"\0"):
        member = TarInfo.frombuf(header, "utf-8", "surrogateescape")
        total += LEAST_MEMBER
        if member.size < 0:
            raise ValueError(f"'{member.name}' has a size below zero")
        check_unpacked(total + member.size, path, name)
        if member.type in (LONG_NAME, EXTENDED_HEADER):
            if member.size > MOST_HEADER:
                raise ValueError(f"expected an extended header of at most {MOST_HEADER:,} bytes, got {member.size:,}")
            content = b"".join(blocks(member.size))
            found = re.search(rb"^\d+ path=(.*)$", content, re.MULTILINE)
            long_name = (content.rstrip(b"\0") if member.type == LONG_NAME else found[1] if found else b"").decode()
            continue
        inner, long_name = Path(long_name or member.name), ""
        total += LEAST_MEMBER * inner.as_posix().count("/")
        is_left_out = inner.as_posix().startswith(PACKED) and not inner.name.endswith(OPTIONS_FILE)
        is_inside = not inner.is_absolute() and ".." not in inner.parts and len(inner.parts) <= MOST_FOLDERS
        if member.type in REGULAR and is_inside and not is_left_out:
            (folder / inner).parent.mkdir(parents=True, exist_ok=True)
            with (folder / inner).open("wb") as file:
                file.writelines(blocks(member.size))
        elif member.type not in WITHOUT_CONTENT:
            deque(blocks(member.size), maxlen=0)


def is_tar_gz(path: Path) -> bool:
    """Return whether a gzip file begins like a tar file."""
    try:
        with gzip.open(path) as stream:
            return bool(TarInfo.frombuf(stream.read(BLOCK), "utf-8", "surrogateescape"))
    except Exception:  # a damaged file may raise anything
        return False


def read_weights(path: Path, name: str) -> dict[str, Any]:
    """Read the state dict in a PyTorch file, which errors call `name`. No code in it runs.

    The tensors are memory-mapped, unless the file is of before PyTorch 1.6, which cannot be mapped and has no check
    sums. Raises `ConfigurationError` if the file is damaged, or holds anything but a state dict of tensors and plain
    values.
    """
    try:
        kind = file_kind(path)
        if kind in (FileKind.FOLDER, FileKind.DEVICE):
            raise ValueError(f"expected a file, got {kind.value}")
        with FileWithoutNumber(path) as stream:
            is_zip = stream.read(4) == b"PK\x03\x04"  # as torch decides
            stream.seek(0)
            if is_zip:
                _check_zip(stream)
            else:
                for _ in range(LEGACY_PICKLES):
                    _check_pickle(stream)
            stream.seek(0)
            readable: Any = path if is_zip else stream
            weights = torch.load(readable, map_location="cpu", weights_only=True, mmap=is_zip)
            size = stream.seek(0, SEEK_END)
        if not isinstance(weights, dict) or not all(isinstance(key, str) for key in weights):
            raise TypeError(f"expected a state dict, got {type(weights).__name__}")
        weights = {key: weights[key] for key in weights}  # an `OrderedDict` may have other methods in a file
        tensors = [value for value in weights.values() if isinstance(value, Tensor)]
        # A tensor may show the same number many times, and the old format may declare more numbers than it holds.
        storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
        if sum(storages.values()) > size or any(tensor.nbytes > size for tensor in tensors):
            raise ValueError(f"expected at most {size:,} bytes of numbers, the size of the file, got more")
    except Exception as error:  # a damaged pickle may raise anything
        raise ConfigurationError(f"'{name}' holds no readable weights: {error}") from error
    return weights


class FileWithoutNumber(BufferedReader):
    """A file that does not tell its number to `torch.load`, which would try to read it as a tar file, too."""

    def __init__(self, path: Path) -> None:
        super().__init__(FileIO(path))

    def fileno(self) -> int:
        """Raise an error."""
        raise UnsupportedOperation("fileno")


def _check_zip(stream: IO[bytes]) -> None:
    """Raise an error unless a zip file is as PyTorch writes it: nothing is compressed, and nothing follows its end.

    The check sums come after the sizes and methods, which bound what is read for them.
    """
    size = stream.seek(0, SEEK_END)
    stream.seek(-22, SEEK_END)
    end = stream.read()
    if not end.startswith(b"PK\x05\x06") or not end.endswith(b"\0\0"):
        raise ValueError("the zip file is damaged at its end")
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        if min(member.header_offset for member in members) > 0:
            raise ValueError("expected a zip file and nothing before it")
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("expected a zip file without compression")
        if sum(member.file_size for member in members) > size:
            raise ValueError(f"expected at most {size:,} bytes of content, the size of the file, got more")
        damaged = archive.testzip()
        if damaged is not None:
            raise ValueError(f"it is damaged: the check sum of its member '{damaged}' does not match")
        for member in members:
            if member.filename.lower().endswith("/data.pkl"):
                with archive.open(member) as content:
                    _check_pickle(content)


def _check_pickle(stream: IO[bytes]) -> None:
    """Raise `ValueError` for a pickle that needs more than a state dict does, before any of it runs.

    Only texts and names may be used twice. A list or tuple that holds another one twice, which holds a third one twice,
    and so on, takes exponential time to hash, compare or print.
    """
    texts, previous = set[Any](), ""
    for number, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
        if not OPCODES.fullmatch(opcode.name) or (opcode.name == "GLOBAL" and argument not in GLOBALS):
            what = f"'{argument}'" if opcode.name == "GLOBAL" else opcode.name
            raise ValueError(f"expected a state dict of tensors and plain values, got {what}")
        if opcode.name.endswith("BINPUT"):
            (texts.add if TEXT.fullmatch(previous) else texts.discard)(argument)
        if opcode.name.endswith("BINGET") and argument not in texts:
            raise ValueError("expected each value of a state dict once, got one that is used again")
        previous = opcode.name
        if number > MOST_OPCODES:
            raise ValueError(f"expected at most {MOST_OPCODES:,} instructions, got more")
