"""Values by key in a folder on disk, for many processes at once: LMDB, which a kill leaves as the last commit did."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Optional, TypeVar
from weakref import WeakValueDictionary

import lmdb
from allennlp.common.checks import ConfigurationError

logger = logging.getLogger(__name__)

MAP_SIZE = 2**30
"""Bytes of address space that a file gets at first; doubled as often as needed."""
IDENTITY = b"identity"
UNREADABLE = (lmdb.InvalidError, lmdb.VersionMismatchError, lmdb.CorruptedError)

Result = TypeVar("Result")


class SentenceStore:
    """A folder's LMDB file. Nothing in it is ever overwritten: of two processes that write a key, the first wins.

    Where it cannot be written, what is there is still read. Use `open_store`: LMDB wants a file opened once a process.

    # Parameters

    path : `Path`
        The folder; made if there is none.

    Raises `ConfigurationError` for a file that is no LMDB, `OSError` or `lmdb.Error` where none can be had.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writable = False
        self._open()

    def claim(self, identity: bytes) -> bytes:
        """What the file says that its values were made by, which is `identity` if it did not say yet."""
        found = self._transact(_get_identity)
        if found is None:
            self.write({IDENTITY: identity})
            found = self._transact(_get_identity)
        return found or identity

    def read(self, keys: Sequence[bytes], receive: Callable[[int, Any], None]) -> list[int]:
        """Give each key's place and value to `receive`; return the places of the keys that are not there.

        All in one transaction. A value is a buffer, good for the one call.
        """

        def read_all(transaction: lmdb.Transaction) -> list[int]:
            missing = []
            for place, key in enumerate(keys):
                value = transaction.get(key)
                if value is None:
                    missing.append(place)
                else:
                    receive(place, value)
            return missing

        return self._transact(read_all)

    def write(self, values: Mapping[bytes, Any]) -> None:
        """Add buffers, all or none. After a failure, as of a full disk, there is a warning and no further attempt."""

        def put_all(transaction: lmdb.Transaction) -> None:
            for key, value in values.items():
                transaction.put(key, value, overwrite=False)

        if self.writable:
            try:
                self._transact(put_all, write=True)
            except lmdb.Error as error:
                logger.warning("'%s' cannot be written (%s): it is read, and nothing joins it", self.path, error)
                self.writable = False

    def _open(self) -> None:
        self._pid, self._lock = os.getpid(), Lock()
        self._environment, self.writable = _open_environment(self.path)

    def _transact(self, action: Callable[[lmdb.Transaction], Result], write: bool = False) -> Result:
        if self._pid != os.getpid():  # LMDB must be opened anew behind a fork
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
                    self._environment.set_mapsize(0)  # as large as another process made it
                except lmdb.ReadersFullError:
                    if not self._environment.reader_check():  # frees the places of processes that were killed
                        raise


_OPEN: "WeakValueDictionary[tuple[int, int], SentenceStore]" = WeakValueDictionary()


def open_store(path: Path) -> Optional[SentenceStore]:
    """The store in a folder, the same object for all that ask in this process; `None`, with a warning, if none can be.

    Raises `ConfigurationError` for a file that is no LMDB.
    """
    try:
        store = _OPEN.get(_file_id(path)) or SentenceStore(path)
        _OPEN[_file_id(path)] = store
    except (OSError, lmdb.Error) as error:
        logger.warning("'%s' can be neither made nor read (%s): going on without it", path, error)
        return None
    return store


def _open_environment(path: Path) -> tuple[lmdb.Environment, bool]:
    """The environment, and whether it can be written."""
    file, lock = path / "data.mdb", path / "lock.mdb"
    try:
        path.mkdir(parents=True, exist_ok=True)
        # Without `metasync` a power cut may lose the last commit, and harms nothing else.
        return _whole(file, lmdb.open(str(path), map_size=MAP_SIZE, metasync=False)), True
    except UNREADABLE as error:
        raise ConfigurationError(f"'{file}' is no LMDB file of this machine's kind: {error}") from error
    except (OSError, lmdb.Error) as error:
        if not file.exists():
            raise
        logger.warning("'%s' cannot be written (%s): it is read, and nothing joins it", path, error)
        is_locked = os.access(lock, os.W_OK)
        return _whole(file, lmdb.open(str(path), map_size=MAP_SIZE, readonly=True, lock=is_locked)), False


def _whole(file: Path, environment: lmdb.Environment) -> lmdb.Environment:
    """The same. Raises `ConfigurationError` for a file that was cut off: what is not there would end the process."""
    found, wanted = file.stat().st_size, (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    if found < wanted:
        environment.close()
        raise ConfigurationError(
            f"'{file}' is cut off: found {found} bytes, wanted {wanted}; delete it, or copy it anew"
        )
    return environment


def _file_id(path: Path) -> tuple[int, int]:
    """Which file it is, by whatever path: (0, 0) for none."""
    file = path / "data.mdb"
    if not file.exists():
        return 0, 0
    status = file.stat()
    return status.st_dev, status.st_ino


def _get_identity(transaction: lmdb.Transaction) -> Optional[bytes]:
    found = transaction.get(IDENTITY)
    return None if found is None else bytes(found)
