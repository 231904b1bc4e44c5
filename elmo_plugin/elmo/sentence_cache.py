"""Cache the layers of each sentence on disk, so that a frozen biLM runs once per sentence and not once per epoch."""

import json
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
from allennlp.common import FromParams
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm import BiLM, InitialState, identity
from elmo_plugin.common import check_made_with
from elmo_plugin.elmo.sentence_store import SentenceStore, open_store
from elmo_plugin.lstm import Version, number_type, product_type
from elmo_plugin.text import BOUNDARIES


class SentenceCache(FromParams):
    """Keeps the layers of each sentence of one biLM in an LMDB folder. The key `sentence_cache` in configs.

    Computed layers are rounded to the type in which they are stored, so a sentence has the same layers whether they are
    computed or read.

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
        self._versions: list[object] = []

    def open_for(self, bilm: BiLM, initial_state: InitialState) -> Optional[SentenceStore]:
        """Return the store after a check that this biLM made it, or `None` if no store can be opened.

        The check is repeated when the weights change. Raises `ConfigurationError` if another biLM made the store, or if
        the initial state of a sentence depends on the sentences before it.
        """
        tensors = [*bilm.parameters(), *(bilm.warm_state or ())]
        versions = [product_type(tensors[0]), *map(Version, tensors)]
        if versions != self._versions or any(tensor.is_inference() for tensor in tensors):
            if not initial_state.same_for_every_sentence:
                raise ConfigurationError(
                    "'sentence_cache': expected an 'initial_state' that is the same for every sentence, 'zero' or "
                    f"'warm', got '{initial_state.name}'"
                )
            expected = {**identity(bilm, initial_state), "precision": self.precision}
            self._store = open_store(self.path)
            if self._store is not None:
                made_with = json.loads(self._store.claim(json.dumps(expected).encode()))
                check_made_with(str(self.path), made_with, expected, "name another folder, or delete this one")
            self._versions = versions
        return self._store

    def layers(
        self,
        ids: Tensor,
        bilm: BiLM,
        initial_state: InitialState,
        run_bilm: Callable[[Tensor], tuple[Tensor, Tensor]],
    ) -> tuple[Tensor, Tensor]:
        """Return what `run_bilm(ids)` returns: all layers (L, B, T + 2, D) and their mask (B, T + 2).

        `run_bilm` gets only the sentences that are not in the cache, each of them once. Their layers are then added.
        """
        store = self.open_for(bilm, initial_state)
        fitted = bilm.token_encoder.fit(ids)
        present = bilm.token_encoder.mask(fitted)  # (B, T)
        # No indexer puts padding before a token. The key of such a sentence would leave out its last tokens.
        has_gaps = bool((present[:, 1:] > present[:, :-1]).any())
        if store is None or has_gaps:
            return run_bilm(ids)
        lengths = present.sum(dim=1)  # (B,)
        keys = sentence_keys(fitted, lengths.tolist())
        lengths = lengths + BOUNDARIES
        padded = _PaddedLayers(bilm, lengths.tolist(), ids.size(1) + BOUNDARIES, self._dtype)
        missing = store.read(keys, padded.put)
        if missing:
            rows = list({keys[row]: row for row in missing}.values())  # equal sentences are computed once
            computed = padded.cut(run_bilm(ids[rows])[0], rows)
            new = {keys[row]: value for row, value in zip(rows, computed, strict=True)}
            store.write(new)
            for row in missing:
                padded.put(row, new[keys[row]])
        mask = torch.arange(ids.size(1) + BOUNDARIES, device=ids.device) < lengths.unsqueeze(1)  # (B, T + 2)
        return padded.layers.to(ids.device).float(), mask

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the open store: a copy, or another process, opens the folder itself."""
        return {**self.__dict__, "_store": None, "_versions": []}


class _PaddedLayers:
    """The layers of a batch (L, B, T + 2, D) in their stored type, filled row by row and padded with zeros."""

    def __init__(self, bilm: BiLM, lengths: list[int], padded_length: int, dtype: torch.dtype) -> None:
        sizes = bilm.options
        self.lengths = lengths
        self.layers = torch.empty(sizes.num_layers, len(lengths), padded_length, sizes.layer_dim, dtype=dtype)
        self._bytes = self.layers.view(torch.uint8).numpy()  # (L, B, T + 2, bytes of D)

    def put(self, row: int, value: Any) -> None:
        """Copy the layers of a sentence from a buffer of (L, its T + 2, bytes of D) to its row."""
        layers, _, _, width = self._bytes.shape
        self._bytes[:, row, : self.lengths[row]] = np.frombuffer(value, np.uint8).reshape(layers, -1, width)
        self._bytes[:, row, self.lengths[row] :] = 0

    def cut(self, computed: Tensor, rows: Sequence[int]) -> list[np.ndarray]:
        """Return one buffer per sentence, as `put` takes them, from the layers (L, ·, T + 2, D) of some rows."""
        rounded = computed.to(self.layers.dtype).cpu()
        sentences = (rounded[:, i, : self.lengths[row]].contiguous() for i, row in enumerate(rows))
        return [sentence.view(torch.uint8).numpy() for sentence in sentences]


def sentence_keys(ids: Tensor, lengths: Sequence[int]) -> list[bytes]:
    """Return a 16-byte digest of each sentence's ids without padding; ids are (B, T, C) or (B, T)."""
    rows = ids.to("cpu", torch.int32).numpy()
    return [blake2b(row[:length].tobytes(), digest_size=16).digest() for row, length in zip(rows, lengths, strict=True)]
