"""Atomic writes: after a kill or on a full disk, a file has its old content or its new content, never a part of it.

Two processes may write one file at once: each writes a temporary file of its own, and the last one to finish gives the
file its content. A temporary file is locked while its process lives; the next write into the folder removes the others,
which killed processes left.
"""

import fcntl  # does not exist on Windows
import filecmp
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from secrets import token_hex
from typing import Optional

from allennlp.common.checks import ConfigurationError

LOCK = "lock"
"""The file in a folder whose lock is that of the folder."""
TEMPORARY = re.compile(r".*\.[0-9a-f]{12}\.partial")
"""The names of temporary files and folders."""


class NotWritten(ConfigurationError):
    """A file or folder that cannot be written, for example because the disk is full. Its cause is an `OSError`."""


@contextmanager
def atomic_file(target: Path, temporary: Optional[Path] = None) -> Iterator[Path]:
    """Give a temporary path to write to; at the end it is flushed to the disk and renamed to `target`.

    The temporary file is a new one beside `target`, or else `temporary`, which no other process may write. It is
    removed after an error. Missing folders are created. Raises `NotWritten` that names `target` if the file cannot be
    written, for example because the disk is full.

    A link stays, and the file that it names gets the content. A pipe or a device is written to as it is.
    """
    with _named_errors(target):
        if target.exists() and not target.is_file() and not target.is_dir():
            yield target
            return
        target = target.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        with nullcontext(temporary) if temporary else _temporary(target.parent, target.name) as partial:
            try:
                yield partial
                _flush(partial)
                partial.replace(target)
                _flush(target.parent)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise


@contextmanager
def atomic_folder(target: Path, last: str) -> Iterator[Path]:
    """Give a temporary folder to write to; at the end its files are flushed to the disk and moved into `target`.

    Readers need the file `last`. It is removed before the other files are moved, and is moved after them, so a kill
    never leaves a mix of old and new files that looks complete. If `target` already holds the same files, they are left
    alone. Of two processes, one moves its files after the other.

    `target` is created if it does not exist; the temporary folder is a new one inside it. Raises `NotWritten` that
    names `target` if the files cannot be written, for example because the disk is full.
    """
    with _named_errors(target):
        target.mkdir(parents=True, exist_ok=True)
        with _temporary(target) as partial:
            try:
                yield partial
                files = sorted(partial.iterdir(), key=lambda file: (file.name == last, file.name))
                with _locked(target):
                    names = [file.name for file in files]
                    if names != filecmp.cmpfiles(partial, target, names, shallow=False)[0]:
                        for file in files:
                            _flush(file)
                        (target / last).unlink(missing_ok=True)
                        for file in files:
                            file.replace(target / file.name)
                        _flush(target)
            finally:
                shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def _temporary(folder: Path, file: Optional[str] = None) -> Iterator[Path]:
    """Make a temporary file for the `file` of a folder, or a folder in it, and lock it until the end.

    First remove what killed processes have left in the folder. If the file system has no locks, it stays.
    """
    for left in [path for path in folder.iterdir() if TEMPORARY.fullmatch(path.name)]:
        with suppress(OSError), _locked(left, wait=False) as is_locked:
            if is_locked:
                shutil.rmtree(left) if left.is_dir() else left.unlink()
    while True:
        path = folder / f"{file or ''}.{token_hex(6)}.partial"
        path.mkdir() if file is None else path.touch(exist_ok=False)
        with ExitStack() as stack:
            with suppress(FileNotFoundError):  # another process has removed it before it was locked
                stack.enter_context(_locked(path))
            if path.exists():
                yield path
                return


@contextmanager
def _locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of a file or folder. Yield false if another process has it, or if the file system has no locks."""
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)  # NFS locks only what may be written
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            is_locked = True
        except OSError:
            is_locked = False
        yield is_locked
    finally:
        os.close(descriptor)


def lock_folder(folder: Path) -> int:
    """Return a descriptor that holds the lock of a folder until it is closed, at the latest at the end of the process.

    Raises `ConfigurationError` if another process holds it. These locks also work on network file systems, and forks do
    not share them.
    """
    with _named_errors(folder):
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        os.close(lock)
        raise ConfigurationError(f"'{folder}': another process is at work in this folder") from error
    return lock


def _flush(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _named_errors(target: Path) -> Iterator[None]:
    """Turn an `OSError`, or a `RuntimeError` of `torch.save` that it caused, into `NotWritten`."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        cause: Optional[BaseException] = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__context__
        if cause is None:
            raise
        raise NotWritten(f"'{target}' cannot be written: {cause}") from cause
