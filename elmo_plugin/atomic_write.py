"""Write files so that a kill or a full disk leaves the old content or the new one, never a part of it."""

import filecmp
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Optional

from allennlp.common.checks import ConfigurationError


@contextmanager
def atomic_file(target: Path, temporary: Optional[Path] = None) -> Iterator[Path]:
    """Give a temporary path to write to. At the end it is flushed to the disk and renamed to `target`.

    The temporary file is `target` with `.partial` appended, unless named, so that the next attempt overwrites what a
    killed one left; an error removes it. Folders that do not exist are created. Raises `ConfigurationError` naming
    `target` if the disk takes no more.
    """
    partial = temporary or target.with_name(f"{target.name}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield partial
            _flush(partial)
            partial.replace(target)
            _flush(target.parent)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except (OSError, RuntimeError) as error:
        raise _cannot_be_written(target, error) from error


@contextmanager
def atomic_folder(target: Path, last: str) -> Iterator[Path]:
    """Give a temporary folder to write to. At the end its files are flushed to the disk and renamed into `target`.

    Readers need the file `last`: it is removed before the others are renamed and comes last, so a kill never leaves old
    and new files that are read together. If `target` holds equal files already, they are left alone.

    `target` is created if it does not exist. The temporary folder in it is `.partial`; the next attempt removes what a
    killed one left. Raises `ConfigurationError` naming `target` if the disk takes no more.
    """
    partial = target / ".partial"
    try:
        if partial.exists():
            shutil.rmtree(partial)
        partial.mkdir(parents=True)
        try:
            yield partial
            files = sorted(partial.iterdir(), key=lambda file: (file.name == last, file.name))
            if not all(_holds(target / file.name, file) for file in files):
                for file in files:
                    _flush(file)
                (target / last).unlink(missing_ok=True)
                for file in files:
                    file.replace(target / file.name)
                _flush(target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        shutil.rmtree(partial)
    except (OSError, RuntimeError) as error:
        raise _cannot_be_written(target, error) from error


def _holds(path: Path, new: Path) -> bool:
    """Return whether a file exists and equals a new one."""
    return path.exists() and filecmp.cmp(path, new, shallow=False)


def _flush(path: Path) -> None:
    """Wait until the disk holds a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cannot_be_written(target: Path, error: BaseException) -> BaseException:
    """Return a `ConfigurationError` if an `OSError` is the cause, also of a `RuntimeError` of `torch.save`."""
    cause: Optional[BaseException] = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__context__
    return error if cause is None else ConfigurationError(f"'{target}' cannot be written: {cause}")
