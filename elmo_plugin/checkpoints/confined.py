"""Read files of strangers in a child process, whose memory, time and files the operating system limits.

A bomb, a loop, or a crash inside a library ends the child, and is one error here. The child is forked, so it starts
within milliseconds and has all that is imported. It writes the numbers of tensors into memory that both processes
share, and the rest of its answer as JSON, so nothing that it read is more than numbers and texts here.
"""

import gzip
import json
import mmap
import os
import resource  # does not exist on Windows
import shutil
import signal
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from io import BytesIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from threading import Lock
from typing import IO, Any, Optional

import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.checkpoints.files import FileKind, file_kind
from elmo_plugin.common import named_errors, printable

SECONDS, BYTES_PER_SECOND = 3, 2**22
"""The time of the processor that reading any file may take, and the bytes that make it a second longer."""
MEMORY = 96 * 2**20
"""The bytes of memory that reading any file may take, beside some copies of the file."""
COPIES = 4
"""The copies of a file that reading it may hold in memory. Numbers of two bytes become numbers of four."""
GROWTH, ALLOWANCE = 8, 2**20
"""An archive may unpack to so many times its size, and so many bytes more, because texts compress well."""
LEAST_MEMBER = 4096
"""The bytes that even an empty file or folder takes on the disk: an archive may hold a great many of them."""
MOST_FOLDERS = 20
"""The deepest path in an archive. Deleting a folder of many hundred levels exceeds Python's recursion limit."""
MOST_FILES = 32
"""The files that the child may open beside those that are open already."""
ALIGNMENT = 64
ONE_AT_A_TIME = Lock()
"""Held while a child is forked, because `filelock` forbids a fork during the fork of another thread."""
PACKED, OPTIONS_FILE = "fta/", "options_file"
"""The folder of an archive into which AllenNLP before 1.0 copied the files that a config names, under their keys."""
NUMBERS = {
    str(dtype): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    )
}
"""The types of numbers that a tensor may have."""


def confined(read: Callable[[], Any], path: Path, written: int = 0) -> Any:
    """Return what `read` returns in a child process: a dict of tensors, or of hdf5 datasets, or else a value of JSON.

    The limits of the child grow with the size of the file at `path`, and it may write `written` bytes into each file.
    Raises `ConfigurationError` if `read` does, and `ValueError` with the reason if `read` fails in any other way.
    """
    size = path.stat().st_size
    shared = mmap.mmap(-1, COPIES * size + ALLOWANCE)  # takes memory only where it is written
    receiving, sending = os.pipe()
    # The child uses one thread, and no lock that another thread may have held, of which Python warns.
    with ONE_AT_A_TIME, warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        child = os.fork()
    if child == 0:
        try:
            _answer(read, shared, sending, size, written)
        finally:
            os._exit(0)  # whatever happens, it must not go on as this process would
    os.close(sending)
    try:
        with open(receiving, "rb") as pipe:
            text = pipe.read()
    finally:
        os.kill(child, signal.SIGKILL)  # it has answered or ended, unless this process is being stopped
        _, status = os.waitpid(child, 0)
    if not text:
        raise ValueError(
            f"reading it took more than {SECONDS + size // BYTES_PER_SECOND} s of the processor's time, or crashed the "
            f"library that reads it (signal {os.WTERMSIG(status)})"
        )
    kind, answer = json.loads(text)
    if kind != "value":
        raise ConfigurationError(answer) if kind == ConfigurationError.__name__ else ValueError(answer)
    if isinstance(answer, dict):
        return {name: _tensor_at(shared, *place) for name, place in answer.items()}
    return answer


def _answer(read: Callable[[], Any], shared: mmap.mmap, sending: int, size: int, written: int) -> None:
    """Send what `read` returns, or its error."""
    end = 0

    def put(value: Any) -> Any:
        nonlocal end
        dtype = str(value.dtype) if isinstance(value, Tensor) else "torch.float32"
        if dtype not in NUMBERS:
            raise TypeError(f"expected real numbers, got {dtype}")
        start = end + -end % ALIGNMENT
        end = start + torch.Size(value.shape).numel() * NUMBERS[dtype].itemsize
        if end > len(shared):
            raise ValueError(f"expected at most {len(shared):,} bytes of numbers in a file of {size:,}, got more")
        place: Any = [dtype, list(value.shape), start]
        target = _tensor_at(shared, *place)
        if isinstance(value, Tensor):
            target.copy_(value)
        elif target.numel():
            value.read_direct(target.numpy())
        return place

    try:
        torch.set_num_threads(1)
        _limit(SECONDS + size // BYTES_PER_SECOND, MEMORY + COPIES * size, written, sending + MOST_FILES)
        answer = json.dumps(["value", read()], default=put)
    except BaseException as error:  # a damaged file may raise anything
        message = error.message if isinstance(error, ConfigurationError) else f"{error}" or type(error).__name__
        answer = json.dumps([type(error).__name__, printable(message)])
    with open(sending, "wb") as pipe:
        pipe.write(answer.encode())


def _limit(seconds: int, memory: int, written: int, files: int) -> None:
    """Limit this process. On macOS, which does not tell how much memory it has, only time and files are limited."""
    limits = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_FSIZE: written,
        resource.RLIMIT_NOFILE: files,
        resource.RLIMIT_CORE: 0,
    }
    if (pages := Path("/proc/self/statm")).exists():
        limits[resource.RLIMIT_DATA] = int(pages.read_text(encoding="ascii").split()[5]) * mmap.PAGESIZE + memory
    for limit, value in limits.items():
        with suppress(ValueError):  # there is a lower limit already
            resource.setrlimit(limit, (value, value))


def _tensor_at(shared: mmap.mmap, dtype: str, shape: list[int], start: int) -> Tensor:
    """Return the tensor at a place of shared memory, which lives as long as the tensor."""
    count = torch.Size(shape).numel()
    if not count:
        return torch.empty(shape, dtype=NUMBERS[dtype])
    return torch.frombuffer(shared, dtype=NUMBERS[dtype], count=count, offset=start).view(shape)


def read_weights(path: Path, name: str) -> dict[str, Tensor]:
    """Return the tensors in a PyTorch file of weights, which errors call `name`. No code in it runs.

    Raises `ConfigurationError` if the file is damaged, or holds anything but a state dict of numbers and plain values.
    """

    def read() -> Mapping[str, Tensor]:
        is_zip = zipfile.is_zipfile(path)
        damaged = zipfile.ZipFile(path).testzip() if is_zip else None  # PyTorch does not compare the check sums
        if damaged is not None:
            raise ValueError(f"it is damaged: the check sum of its member '{damaged}' does not match")
        # Of the path of an old file, `torch.load` would try to read a tar file first.
        weights = torch.load(path if is_zip else BytesIO(path.read_bytes()), "cpu", weights_only=True, mmap=is_zip)
        if not isinstance(weights, dict):
            raise TypeError(f"expected a state dict, got {type(weights).__name__}")
        return {key: value for key, value in weights.items() if isinstance(value, Tensor)}

    with named_errors(f"'{name}' holds no readable weights", OSError, ValueError):
        if path.exists() and not path.is_file():
            raise ValueError("expected a file, got a folder or a device")
        return dict(confined(read, path))


@contextmanager
def unpacked(path: Path, name: str) -> Iterator[Path]:
    """Unpack a zip file or a `.tar.gz` into a temporary folder, which is deleted when the context ends.

    Errors call the file `name`. In a `ConfigurationError` that is raised while the folder is in use, that name replaces
    the folder's. Raises `ConfigurationError` for a damaged file, and for one that would grow beyond the limits.
    """
    with TemporaryDirectory(prefix="elmo_plugin-unpacked-") as folder:
        most = GROWTH * path.stat().st_size + ALLOWANCE
        with named_errors(f"'{name}' cannot be unpacked", ValueError):
            confined(partial(_unpack, path, Path(folder), most), path, written=most)
        try:
            yield Path(folder)
        except ConfigurationError as error:
            error.message = str(error.message).replace(folder, name)
            raise


def _unpack(path: Path, folder: Path, most: int) -> None:
    """Write the regular files of an archive whose paths stay inside the folder.

    Files of `fta/` are left out, except options: they may be copies of weights that were not trained.
    """
    left = most
    for name, opened in _members(path):
        inner = PurePosixPath(name)
        # Every folder counts as a file, whether it is listed or only a part of a path.
        left -= LEAST_MEMBER * len(inner.parts)
        is_left_out = inner.as_posix().startswith(PACKED) and not inner.name.endswith(OPTIONS_FILE)
        is_inside = not inner.is_absolute() and ".." not in inner.parts and len(inner.parts) <= MOST_FOLDERS
        if opened is not None and is_inside and not is_left_out:
            (folder / inner).parent.mkdir(parents=True, exist_ok=True)
            with opened() as source, (folder / inner).open("wb") as target:
                shutil.copyfileobj(source, target)
                left -= target.tell()
        if left < 0:
            raise ValueError(f"expected at most {most:,} bytes in an archive of {path.stat().st_size:,}, got more")


def _members(path: Path) -> Iterator[tuple[str, Optional[Callable[[], IO[bytes]]]]]:
    """Yield the path of each member of an archive, and what opens a regular file; `None` for links and the like."""
    if file_kind(path) is FileKind.ZIP:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                yield info.filename, None if info.is_dir() else partial(archive.open, info)
    else:
        with gzip.open(path) as content, tarfile.open(fileobj=content, mode="r:") as tar:
            for member in tar:
                yield member.name, partial(tar.extractfile, member) if member.isreg() else None  # type: ignore[misc]
            while content.read(ALLOWANCE):  # the check sum is at the end
                pass
