"""A key-value store that processes share: an LMDB file, which stays intact when a process is killed."""

import logging
import mmap
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Optional, TypeVar
from weakref import WeakValueDictionary

import lmdb
from allennlp.common.checks import ConfigurationError

logger = logging.getLogger(__name__)

MAP_SIZE = 2**30
"""The maximum size of a new file in bytes; it is doubled when the file is full."""
IDENTITY = b"identity"
LMDB_MAGIC = (0xBEEFC0DE).to_bytes(4, sys.byteorder)
"""Bytes 16 to 19 of an LMDB file, after the header of its first page: `MDB_MAGIC` in LMDB's `mdb.c`."""
UNREADABLE = (lmdb.InvalidError, lmdb.VersionMismatchError, lmdb.CorruptedError)

Result = TypeVar("Result")


class SentenceStore:
    """The LMDB file of a folder. No value is overwritten: if two processes write a key, the first value stays.

    A file that cannot be written is still read. Use `open_store`, because a process may open an LMDB file only once.

    # Parameters

    path : `Path`
        The folder; it is created if it does not exist.

    Raises `ConfigurationError` for a file that is not LMDB, and `OSError` or `lmdb.Error` if the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self._open()

    def _open(self) -> None:
        self._pid = os.getpid()
        self._environment, self.writable = _open_environment(self.path)

    def claim(self, identity: bytes) -> bytes:
        """Return the identity stored in the file. If there is none, store `identity`."""

        def stored(transaction: lmdb.Transaction) -> bytes:
            return bytes(transaction.get(IDENTITY, default=b""))

        if not self._transact(stored):
            self.write({IDENTITY: identity})
        return self._transact(stored) or identity

    def read(self, keys: Sequence[bytes], receive: Callable[[int, Any], None]) -> list[int]:
        """Pass the index and the value of each key to `receive`, and return the indices of the missing keys.

        All values come from one transaction. A value is a buffer, valid only until `receive` returns.
        """

        def read_all(transaction: lmdb.Transaction) -> list[int]:
            missing = []
            for index, key in enumerate(keys):
                value = transaction.get(key)
                if value is None:
                    missing.append(index)
                else:
                    receive(index, value)
            return missing

        return self._transact(read_all)

    def write(self, values: Mapping[bytes, Any]) -> None:
        """Store all values or none. After a failure, such as a full disk, log a warning and write no more."""

        def put_all(transaction: lmdb.Transaction) -> None:
            for key, value in values.items():
                transaction.put(key, value, overwrite=False)

        if self.writable:
            try:
                self._transact(put_all, write=True)
            except lmdb.Error as error:
                _warn_read_only(self.path, error)
                with self._lock:
                    self._environment.close()  # after some errors LMDB cannot read until it is reopened
                    self._open()
                    self.writable = False

    def _transact(self, action: Callable[[lmdb.Transaction], Result], write: bool = False) -> Result:
        if self._pid != os.getpid():  # a fork must reopen LMDB, and cannot release a lock held by another thread
            self._lock = Lock()
            self._environment.close()
            self._open()
        with self._lock:
            while True:
                try:
                    with self._environment.begin(write=write, buffers=True) as transaction:
                        return action(transaction)
                except lmdb.MapFullError:
                    self._environment.set_mapsize(2 * self._environment.info()["map_size"])
                except lmdb.MapResizedError:
                    self._environment.set_mapsize(0)  # the size that another process set
                except lmdb.ReadersFullError:
                    if not self._environment.reader_check():  # frees the slots of killed processes
                        raise


_OPEN: "WeakValueDictionary[tuple[int, int], SentenceStore]" = WeakValueDictionary()
_OPENING = Lock()


def open_store(path: Path) -> Optional[SentenceStore]:
    """Return the store of a folder, one object per process. If it cannot be opened, log a warning and return `None`.

    Raises `ConfigurationError` for a file that is not LMDB.
    """
    try:
        with _OPENING:
            store = _OPEN.get(_file_id(path)) or SentenceStore(path)
            _OPEN[_file_id(path)] = store
    except (OSError, lmdb.Error) as error:
        logger.warning("'%s' can be neither created nor read (%s): continuing without it", path, error)
        return None
    return store


def _open_environment(path: Path) -> tuple[lmdb.Environment, bool]:
    """Open LMDB in a folder. Return the environment, and whether it can be written."""
    file, lock = path / "data.mdb", path / "lock.mdb"
    try:
        path.mkdir(parents=True, exist_ok=True)
        if _is_half_created(file):
            file.unlink(missing_ok=True)
        # Without `metasync`, a power cut may lose the last commit but nothing else.
        return _whole(file, lmdb.open(str(path), map_size=MAP_SIZE, metasync=False)), True
    except UNREADABLE as error:
        raise ConfigurationError(f"'{file}' is no LMDB file that this machine can read: {error}") from error
    except (OSError, lmdb.Error) as error:
        if not file.exists():
            raise
        _warn_read_only(path, error)
        is_locked = os.access(lock, os.W_OK)
        return _whole(file, lmdb.open(str(path), map_size=MAP_SIZE, readonly=True, lock=is_locked)), False


def _warn_read_only(path: Path, error: Exception) -> None:
    logger.warning("'%s' cannot be written (%s): it is only read, and no sentence is added", path, error)


def _is_half_created(file: Path) -> bool:
    """Return whether the process that created the file was killed before it had written both of LMDB's first pages."""
    if not file.exists() or file.stat().st_size >= 2 * mmap.PAGESIZE:
        return False
    with file.open("rb") as opened:
        return opened.read(20)[16:] == LMDB_MAGIC


def _whole(file: Path, environment: lmdb.Environment) -> lmdb.Environment:
    """Return the environment. Raises `ConfigurationError` for a truncated file, which would crash the process."""
    actual, expected = file.stat().st_size, (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    if actual < expected:
        environment.close()
        raise ConfigurationError(
            f"'{file}' is cut off: expected {expected} bytes, got {actual}; delete it, or copy it again"
        )
    return environment


def _file_id(path: Path) -> tuple[int, int]:
    """Return the device and inode of a folder's file, which identify it by any path; (0, 0) if there is none."""
    file = path / "data.mdb"
    if not file.exists():
        return 0, 0
    status = file.stat()
    return status.st_dev, status.st_ino
