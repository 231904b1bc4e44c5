"""Atomic writes: after a kill or on a full disk, a file has its old content or its new content, never a part of it."""

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
    """Give a temporary path to write to; at the end it is flushed to the disk and renamed to `target`.

    The temporary file is `temporary`, or else `target` with `.partial` appended, so that the next attempt overwrites
    what a killed one left. It is removed after an error. Missing folders are created. Raises `ConfigurationError` that
    names `target` if the file cannot be written, for example because the disk is full.
    """
    partial = temporary or target.with_name(f"{target.name}.partial")
    with _named_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
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
    alone.

    `target` is created if it does not exist. The temporary folder is `.partial` inside it, and the next attempt removes
    what a killed one left. Raises `ConfigurationError` that names `target` if the files cannot be written, for example
    because the disk is full.
    """
    partial = target / ".partial"
    with _named_errors(target):
        if partial.exists():
            shutil.rmtree(partial)
        partial.mkdir(parents=True)
        try:
            yield partial
            files = sorted(partial.iterdir(), key=lambda file: (file.name == last, file.name))
            if not all(_same_content(file, target / file.name) for file in files):
                for file in files:
                    _flush(file)
                (target / last).unlink(missing_ok=True)
                for file in files:
                    file.replace(target / file.name)
                _flush(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _same_content(new: Path, old: Path) -> bool:
    """Return whether `old` exists and has the same content as `new`."""
    return old.exists() and filecmp.cmp(new, old, shallow=False)


def _flush(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _named_errors(target: Path) -> Iterator[None]:
    """Turn an `OSError`, or a `RuntimeError` of `torch.save` that it caused, into a `ConfigurationError`."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        cause: Optional[BaseException] = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__context__
        if cause is None:
            raise
        raise ConfigurationError(f"'{target}' cannot be written: {cause}") from error
