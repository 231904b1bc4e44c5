"""A frozen biLM's layers of each sentence, kept on disk: it runs once on a sentence, whatever the number of epochs."""

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

from elmo_plugin.bilm import BiLM, BiLMOutput, InitialState, identity
from elmo_plugin.elmo.sentence_store import SentenceStore, open_store
from elmo_plugin.linear import Version, product_type

STORED_AS = {"float32": torch.float32, "float16": torch.float16}
BOUNDARIES = 2


class SentenceCache(FromParams):
    """Layers by sentence, in an LMDB folder that holds those of one biLM. `sentence_cache` in configs.

    A sentence's answer is the same whether it was computed or read: also the first time it is rounded as it is stored.

    # Parameters

    path : `str`
        The folder; made if there is none. Processes share it, and models with the same biLM.
    precision : `str`
        What the numbers are stored as: `float32`, or `float16`, which needs half the space.
    """

    def __init__(self, path: str, precision: str = "float32") -> None:
        if precision not in STORED_AS:
            raise ConfigurationError(f"'precision' is {precision!r}; wanted one of {', '.join(STORED_AS)}")
        self.path = Path(path)
        self.precision = precision
        self._store: Optional[SentenceStore] = None
        self._versions: list[object] = []

    def open_for(self, bilm: BiLM, initial_state: InitialState) -> Optional[SentenceStore]:
        """The store, once it is sure that this biLM made what is in it; `None` where there can be no store.

        The weights are compared with the file's when they changed since the last call.
        Raises `ConfigurationError` if another biLM made it, or if the start of a sentence depends on those before it.
        """
        tensors = [*bilm.parameters(), *(bilm.warm_state or ())]
        versions = [product_type(tensors[0]), *map(Version, tensors)]
        if versions != self._versions or any(tensor.is_inference() for tensor in tensors):
            if not initial_state.same_for_every_sentence:
                raise ConfigurationError(
                    "'sentence_cache' wants an 'initial_state' that is the same for every sentence, 'zero' or 'warm'; "
                    f"found '{initial_state.name}'"
                )
            wanted = {**identity(bilm, initial_state), "precision": self.precision}
            self._store = open_store(self.path)
            if self._store is not None:
                self._check(json.loads(self._store.claim(json.dumps(wanted).encode())), wanted)
            self._versions = versions
        return self._store

    def layers(
        self, ids: Tensor, bilm: BiLM, initial_state: InitialState, run_bilm: Callable[[Tensor], BiLMOutput]
    ) -> tuple[Tensor, Tensor]:
        """Character ids (B, T, C), or word ids (B, T), to all layers (L, B, T + 2, D) and their mask (B, T + 2).

        `run_bilm` is given the sentences that are not there, each once, and they join the others.
        """
        store = self.open_for(bilm, initial_state)
        fitted = bilm.token_encoder.fit(ids)
        present = bilm.token_encoder.mask(fitted)  # (B, T)
        if store is None or _has_gaps(present):
            return run_bilm(ids)[:2]
        lengths = present.sum(dim=1) + BOUNDARIES  # (B,)
        keys = sentence_keys(fitted, present.sum(dim=1).tolist())
        padded = _PaddedLayers(bilm, lengths.tolist(), ids.size(1) + BOUNDARIES, STORED_AS[self.precision])
        missing = store.read(keys, padded.put)
        if missing:
            rows = _first_of_each(keys, missing)
            computed = padded.cut(run_bilm(ids[rows]).layers, rows)
            new = {keys[row]: value for row, value in zip(rows, computed, strict=True)}
            store.write(new)
            for row in missing:
                padded.put(row, new[keys[row]])
        mask = torch.arange(ids.size(1) + BOUNDARIES, device=ids.device) < lengths.unsqueeze(1)  # (B, T + 2)
        return padded.layers.to(ids.device).float(), mask

    def _check(self, found: dict[str, Any], wanted: dict[str, Any]) -> None:
        for key in wanted:
            if found.get(key) != wanted[key]:
                raise ConfigurationError(
                    f"'sentence_cache' {self.path} was made with another '{key}': found {found.get(key)}, "
                    f"wanted {wanted[key]}; name another folder, or delete this one"
                )

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or another process starts with: it opens the folder itself."""
        return {**self.__dict__, "_store": None, "_versions": []}


class _PaddedLayers:
    """A batch's layers (L, B, T + 2, D) as they are stored, filled row by row; zeros behind a sentence's end."""

    def __init__(self, bilm: BiLM, lengths: list[int], padded_length: int, dtype: torch.dtype) -> None:
        sizes = bilm.options
        self.lengths = lengths
        self.layers = torch.empty(sizes.num_layers, len(lengths), padded_length, sizes.layer_dim, dtype=dtype)
        self._bytes = self.layers.view(torch.uint8).numpy()  # (L, B, T + 2, bytes of D)

    def put(self, row: int, value: Any) -> None:
        """Copy a sentence's layers, (L, its T + 2, bytes of D) in a buffer."""
        layers, _, _, width = self._bytes.shape
        self._bytes[:, row, : self.lengths[row]] = np.frombuffer(value, np.uint8).reshape(layers, -1, width)
        self._bytes[:, row, self.lengths[row] :] = 0

    def cut(self, computed: Tensor, rows: Sequence[int]) -> list[np.ndarray]:
        """Layers (L, the rows, T + 2, D) to a buffer for each sentence, as `put` takes them."""
        rounded = computed.to(self.layers.dtype).cpu()
        sentences = (rounded[:, i, : self.lengths[row]].contiguous() for i, row in enumerate(rows))
        return [sentence.view(torch.uint8).numpy() for sentence in sentences]


def sentence_keys(ids: Tensor, lengths: Sequence[int]) -> list[bytes]:
    """A digest of each sentence's own ids, (B, T, C) or (B, T), 16 bytes."""
    rows = ids.to("cpu", torch.int32).numpy()
    return [blake2b(row[:length].tobytes(), digest_size=16).digest() for row, length in zip(rows, lengths, strict=True)]


def _first_of_each(keys: Sequence[bytes], rows: Sequence[int]) -> list[int]:
    """Those of the rows whose key no row above has."""
    return list({keys[row]: row for row in reversed(rows)}.values())[::-1]


def _has_gaps(present: Tensor) -> bool:
    """Whether a token comes behind padding, as no indexer makes it: such a sentence is not told by its length."""
    return bool((present[:, 1:] > present[:, :-1]).any())
