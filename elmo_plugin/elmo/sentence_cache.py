"""Cache the layers of each sentence on disk, so that a frozen biLM runs once per sentence and not once per epoch."""

import json
import logging
import mmap
import os
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any, Optional
from weakref import WeakValueDictionary

import lmdb
import numpy as np
import torch
from allennlp.common import FromParams
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm import IDS, BiLM, InitialState, check_padding, identity
from elmo_plugin.common import check_made_with
from elmo_plugin.lstm import Versions, number_type
from elmo_plugin.text import BOUNDARIES

logger = logging.getLogger(__name__)

MAP_SIZE = 2**40
"""The largest size of a file in bytes. LMDB reserves addresses for it, and neither memory nor space on the disk."""
VERSION = 1
"""The version of the keys and values of the folder."""
FILE = "data.mdb"
IDENTITY = b"identity"
"""The key of what a folder belongs to. Sentences have keys of 16 bytes."""


class SentenceCache(FromParams):
    """Keeps the layers of each sentence of one biLM in an LMDB folder. The key `sentence_cache` in configs.

    Computed layers are rounded to the type in which they are stored, so a sentence has the same layers whether they are
    computed or read. The biLM computes them in its own precision, also under autocast.

        "sentence_cache": {"path": "cache/english", "precision": "float16"}

    # Parameters

    path : `str`
        The folder; it is created if it does not exist. Processes may share it, and so may models with the same biLM.
    precision : `str`
        The type of the stored numbers: `float32`, or `float16`, which needs half the space.
    """

    def __init__(self, path: str, precision: str = "float32") -> None:
        try:
            self._dtype = number_type(precision, allowed=("float32", "float16"))
        except ValueError as error:
            raise ConfigurationError(str(error)) from error
        self.path = Path(path).expanduser()
        self.precision = precision
        self._store: Optional[SentenceStore] = None
        self._versions: Optional[Versions] = None

    @staticmethod
    def check_state(initial_state: InitialState) -> None:
        """Raise `ConfigurationError` if the layers of a sentence depend on the sentences before it."""
        if not initial_state.same_for_every_sentence:
            raise ConfigurationError(
                "'sentence_cache': expected an 'initial_state' that is the same for every sentence, 'zero' or "
                f"'warm', got '{initial_state.name}'"
            )

    @torch.no_grad()
    def layers(self, ids: Tensor, bilm: BiLM, initial_state: InitialState) -> tuple[Tensor, Tensor]:
        """Return all layers (L, B, T + 2, D) of ids (B, T, ·), and their mask (B, T + 2).

        The biLM runs only on the sentences that are not in the cache, on each of them once, and their layers are added.
        Raises `ConfigurationError` if another biLM made the cache.
        """
        encoder, sizes = bilm.token_encoder, bilm.options

        def run(some: Tensor) -> tuple[Tensor, Tensor]:
            layers, mask, _ = bilm(some, initial_state.before(bilm, some.size(0), bilm.weight))
            return layers.to(self._dtype), mask

        device = bilm.weight.device
        with torch.autocast(device.type, enabled=False):
            store = self._store_of(bilm, initial_state)
            fitted = encoder.fit(ids)
            present = encoder.mask(fitted)  # (B, T)
            check_padding(present, IDS)
            if store is None:
                layers, mask = run(ids)
                return layers.float(), mask
            lengths = present.sum(dim=1)  # (B,)
            keys = sentence_keys(fitted, lengths.tolist())
            lengths = lengths + BOUNDARIES
            values = dict(zip(keys, store.read(keys), strict=True))
            missing = {key: row for row, key in enumerate(keys) if values[key] is None}
            if missing:
                computed = run(ids[list(missing.values())])[0].cpu().numpy()  # (L, missing, T + 2, D)
                new = {
                    key: computed[:, i, : int(lengths[row])].tobytes() for i, (key, row) in enumerate(missing.items())
                }
                store.write(new)
                values.update(new)
        padded = ids.size(1) + BOUNDARIES
        whole = torch.zeros(sizes.num_layers, len(keys), padded, sizes.layer_dim, dtype=self._dtype)
        array = whole.numpy()
        for row, (key, length) in enumerate(zip(keys, lengths.tolist(), strict=True)):
            stored = np.frombuffer(values[key] or b"", array.dtype)
            array[:, row, :length] = stored.reshape(sizes.num_layers, length, sizes.layer_dim)
        mask = torch.arange(padded, device=device) < lengths.to(device).unsqueeze(1)  # (B, T + 2)
        return whole.to(device).float(), mask

    def _store_of(self, bilm: BiLM, initial_state: InitialState) -> Optional["SentenceStore"]:
        """Return the store after a check that this biLM made it, or `None` if no store can be opened.

        The first batch opens the store, because only then the biLM is on the device that computes it. The check is
        repeated when a weight changes.
        """
        versions = Versions([*bilm.parameters(), *bilm.buffers()])
        if versions != self._versions:
            expected = {"version": VERSION, **identity(bilm, initial_state), "precision": self.precision}
            self._store = open_store(self.path)
            if self._store is not None:
                made_with = self._store.claim(json.dumps(expected).encode())
                check_made_with(str(self.path), made_with, expected, "name another folder, or delete this one")
            self._versions = versions
        return self._store

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the open store: a copy, or another process, opens the folder itself."""
        return {**self.__dict__, "_store": None, "_versions": None}


def sentence_keys(ids: Tensor, lengths: Sequence[int]) -> list[bytes]:
    """Return a 16-byte digest of each sentence's ids without padding; ids are (B, T, C) or (B, T)."""
    rows = ids.to("cpu", torch.int32).numpy()
    return [blake2b(row[:length].tobytes(), digest_size=16).digest() for row, length in zip(rows, lengths, strict=True)]


class SentenceStore:
    """The LMDB file of a folder, which stays intact when a process is killed. Processes and threads may share it.

    No value is overwritten: if two processes write a key, the first value stays. A file that cannot be written is still
    read. Use `open_store`, because a process may open an LMDB file only once.

    # Parameters

    path : `Path`
        The folder; it is created if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open()

    def _open(self) -> None:
        self._lock, self._process, self.writable = Lock(), os.getpid(), True
        file = self.path / FILE
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if file.exists() and 0 < file.stat().st_size < 2 * mmap.PAGESIZE:
                file.unlink()  # a process was killed before it had written both of LMDB's first pages
            # Without `metasync`, a power cut may lose the last commit but nothing else.
            self._environment = lmdb.open(str(self.path), map_size=MAP_SIZE, metasync=False)
            expected = (self._environment.info()["last_pgno"] + 1) * self._environment.stat()["psize"]
            if file.stat().st_size < expected:  # reading beyond the end would kill the process
                self._environment.close()
                raise lmdb.InvalidError(f"it is cut short, expected {expected:,} bytes, got {file.stat().st_size:,}")
        except lmdb.InvalidError as error:
            raise ConfigurationError(f"'{file}' is no LMDB file: {error}; delete the folder") from error
        except (OSError, lmdb.Error) as error:
            if not file.exists():
                raise
            self._open_read_only(error)

    def _open_read_only(self, error: Exception) -> None:
        logger.warning("'%s' cannot be written (%s): it is only read, and no sentence is added", self.path, error)
        can_lock = os.access(self.path / "lock.mdb", os.W_OK)
        self._environment = lmdb.open(str(self.path), map_size=MAP_SIZE, readonly=True, lock=can_lock)
        self.writable = False

    def claim(self, identity: bytes) -> bytes:
        """Return the identity stored in the file. If there is none, store `identity`."""
        if self.read([IDENTITY]) == [None]:
            self.write({IDENTITY: identity})
        return self.read([IDENTITY])[0] or identity

    def read(self, keys: Sequence[bytes]) -> list[Optional[bytes]]:
        """Return the value of each key, all from one transaction; `None` for a key without a value."""
        self._reopen_in_a_fork()
        with self._lock, self._environment.begin() as transaction:
            return [transaction.get(key) for key in keys]

    def write(self, values: Mapping[bytes, bytes]) -> None:
        """Store all values or none. After a failure, such as a full disk, log a warning and write no more."""
        self._reopen_in_a_fork()
        with self._lock:
            if not self.writable:
                return
            try:
                with self._environment.begin(write=True) as transaction:
                    for key, value in values.items():
                        transaction.put(key, value, overwrite=False)
            except lmdb.Error as error:
                self._environment.close()  # after some errors LMDB cannot read until it is reopened
                self._open_read_only(error)

    def _reopen_in_a_fork(self) -> None:
        if self._process != os.getpid():  # LMDB's files, and a lock that another thread held, are the parent's
            self._environment.close()
            self._open()


_OPEN: "WeakValueDictionary[tuple[int, int], SentenceStore]" = WeakValueDictionary()
"""The stores of this process by the device and inode of their file, which identify it by any path."""
_OPENING = Lock()


def open_store(path: Path) -> Optional[SentenceStore]:
    """Return the store of a folder, one object per process. If it cannot be opened, log a warning and return `None`.

    Raises `ConfigurationError` for a file that is not LMDB.
    """

    def file_id() -> tuple[int, int]:
        status = (path / FILE).stat()
        return status.st_dev, status.st_ino

    try:
        with _OPENING:
            store = _OPEN.get(file_id()) if (path / FILE).exists() else None
            store = store or SentenceStore(path)
            _OPEN[file_id()] = store
            return store
    except (OSError, lmdb.Error) as error:
        logger.warning("'%s' can be neither created nor read (%s): continuing without it", path, error)
        return None
