"""Cache the layers of each sentence on disk, so that a frozen biLM runs once per sentence and not once per epoch."""

import json
import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
from allennlp.common import FromParams
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm import IDS, BiLM, InitialState, check_padding, check_precision, identity
from elmo_plugin.common import check_made_with
from elmo_plugin.tensors import NUMBER_TYPES, Kept, Versions
from elmo_plugin.text import BOUNDARIES

logger = logging.getLogger(__name__)

VERSION = 2
"""The version of the keys and values of the folder."""
IDENTITY = b"identity"
"""The key of what a folder belongs to. Sentences have keys of 16 bytes."""


class SentenceCache(FromParams):
    """Keeps the layers of each sentence of one biLM in an SQLite file. The key `sentence_cache` in configs.

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
        self.precision = check_precision(precision, ["float32", "float16"])
        self._dtype = NUMBER_TYPES[precision]
        self.store = SentenceStore(Path(path).expanduser())
        self._checked = Kept()

    @torch.no_grad()
    def layers(self, ids: Tensor, bilm: BiLM, initial_state: InitialState) -> tuple[Tensor, Tensor]:
        """Return all layers (L, B, T + 2, D) of ids (B, T, ·), and their mask (B, T + 2).

        The biLM runs only on the sentences that are not in the cache, on each of them once, and their layers are added.
        Raises `ConfigurationError` if another biLM made the cache.
        """
        encoder, sizes = bilm.token_encoder, bilm.options
        device = bilm.weight.device
        with torch.autocast(device.type, enabled=False):
            weights = Versions([*bilm.parameters(), *bilm.buffers()])
            self._checked.get(weights, lambda: self._check_bilm(bilm, initial_state))
            fitted = encoder.fit(ids)
            present = encoder.mask(fitted)  # (B, T)
            check_padding(present, IDS)
            rows = fitted.to("cpu", torch.int32).numpy()  # (B, T, C) or (B, T)
            tokens = present.sum(dim=1).tolist()
            keys = [blake2b(row[:T].tobytes(), digest_size=16).digest() for row, T in zip(rows, tokens, strict=True)]
            lengths = [T + BOUNDARIES for T in tokens]
            values = self.store.read(keys)
            missing = {key: row for row, key in enumerate(keys) if key not in values}
            if missing:
                some = ids[list(missing.values())]
                computed, _, _ = bilm(some, initial_state.before(bilm, len(some), bilm.weight))
                numbers = computed.to(self._dtype).cpu().numpy()  # (L, missing, T + 2, D)
                new = {key: numbers[:, i, : lengths[row]].tobytes() for i, (key, row) in enumerate(missing.items())}
                self.store.write(new)
                values.update(new)
        padded = ids.size(1) + BOUNDARIES
        whole = torch.zeros(sizes.num_layers, len(keys), padded, sizes.layer_dim, dtype=self._dtype)
        array = whole.numpy()
        for row, (key, length) in enumerate(zip(keys, lengths, strict=True)):
            array[:, row, :length] = np.frombuffer(values[key], array.dtype).reshape(len(array), length, -1)
        mask = torch.arange(padded) < torch.tensor(lengths).unsqueeze(1)  # (B, T + 2)
        return whole.to(device).float(), mask.to(device)

    def _check_bilm(self, bilm: BiLM, initial_state: InitialState) -> None:
        """Check that this biLM made the cache."""
        expected = {"version": VERSION, **identity(bilm, initial_state), "precision": self.precision}
        text = json.dumps(expected).encode()
        self.store.write({IDENTITY: text})
        made_with = self.store.read([IDENTITY]).get(IDENTITY, text)  # nothing, if the folder cannot be written
        check_made_with(str(self.store.path), made_with, expected, "name another folder, or delete this one")


class SentenceStore:
    """The SQLite file of a folder, which stays intact when a process is killed. Processes and threads may share it.

    No value is overwritten: if two processes write a key, the first value stays. A file that cannot be written is still
    read, and without a file nothing is kept; a warning says so once.

    # Parameters

    path : `Path`
        The folder; it is created if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writable = True

    def read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the value of each key that has one."""
        query = "SELECT key, value FROM layers WHERE key = ?"
        return dict(self._connected(lambda file: [row for key in keys for row in file.execute(query, (key,))]) or ())

    def write(self, values: Mapping[bytes, bytes]) -> None:
        """Store all values or none. After a failure, such as a full disk, write no more."""
        if self.writable:
            self._connected(lambda file: file.executemany("INSERT OR IGNORE INTO layers VALUES (?, ?)", values.items()))

    def _connected(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        """Work with a connection of its own, so that threads, forks and copies share nothing.

        Wait up to a minute for another process to finish a write. Return the result, or `None` if the file cannot be
        read or written.
        """
        file = self.path / "layers.sqlite"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(file, timeout=60)) as connection, connection:
                connection.execute("CREATE TABLE IF NOT EXISTS layers (key BLOB PRIMARY KEY, value BLOB)")
                return work(connection)
        except (OSError, sqlite3.OperationalError) as error:
            if self.writable:
                logger.warning("'%s' cannot be written (%s): it is only read, and no sentence is added", file, error)
            self.writable = False
        except sqlite3.DatabaseError as error:
            raise ConfigurationError(f"'{file}' is no SQLite file, or damaged: {error}; delete the folder") from error
