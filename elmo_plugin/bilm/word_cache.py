"""The vectors of words that a frozen token encoder has met, so that only new ones are computed."""

from threading import Lock
from typing import Optional

import numpy as np
import torch
from torch import Tensor

from elmo_plugin.bilm.character_level_encoder import CharacterLevelEncoder
from elmo_plugin.bilm.token_encoder import TokenTable
from elmo_plugin.linear import Version, product_type

CAPACITY = 32768
"""Words kept, 64 MB at the original size. When they are more it starts anew, and frequent words are soon back."""

Fingerprint = tuple[tuple[object, ...], ...]


class WordCache:
    """Every word's vector is computed, once; weights that were changed or moved make it forget.

    Threads may share it. A copy of it, also by pickle, starts empty.

    # Parameters

    capacity : `int`
        Words that it keeps. A batch that alone has more is answered all the same.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self._lock = Lock()
        self._forget()

    def __reduce__(self) -> tuple[type, tuple[int]]:
        """What a copy is made from."""
        return WordCache, (self.capacity,)

    def __len__(self) -> int:
        """Words that it knows."""
        return len(self._rows)

    def clear(self) -> None:
        """Remove all words from the cache."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        self._rows: dict[bytes, int] = {}
        self._vectors: Optional[Tensor] = None  # (rows, P), those beyond the words known are free
        self._made_by: Fingerprint = ()

    @torch.no_grad()
    def look_up(self, encoder: CharacterLevelEncoder, ids: Tensor) -> TokenTable:
        """Ids (B, T, C) to the vectors of all words known, (M, P), and which of them each is, (B, T)."""
        spelled = _spellings(ids)
        with self._lock:
            self._learn(encoder, ids, spelled)
            assert self._vectors is not None
            rows = torch.tensor([self._rows[word] for word in spelled], device=ids.device)  # (B·T,)
            return TokenTable(self._vectors, rows.view(ids.shape[:2]))

    def _learn(self, encoder: CharacterLevelEncoder, ids: Tensor, spelled: list[bytes]) -> None:
        """Compute the words that are not known."""
        made_by = fingerprint(encoder)
        if made_by != self._made_by:
            self._forget()
            self._made_by = made_by
        new = self._new_words(spelled)
        if self._rows and len(self._rows) + len(new) > self.capacity:
            self._rows, self._vectors = {}, None
            new = self._new_words(spelled)
        if new:
            self._add(new, encoder.encode_all(ids.flatten(0, 1)[list(new.values())]))  # (new words, P)

    def _new_words(self, spelled: list[bytes]) -> dict[bytes, int]:
        """Words not known, each with a place where it stands."""
        return {word: place for place, word in enumerate(spelled) if word not in self._rows}

    def _add(self, words: dict[bytes, int], vectors: Tensor) -> None:
        """Known vectors are never written over: an answer given out stays as it was."""
        start, end = len(self._rows), len(self._rows) + len(vectors)
        if self._vectors is None or end > len(self._vectors):
            grown = vectors.new_empty(max(end, min(2 * end, self.capacity)), vectors.size(1))  # (rows, P)
            if self._vectors is not None:
                grown[:start] = self._vectors[:start]
            self._vectors = grown
        self._vectors[start:end] = vectors
        self._rows.update(zip(words, range(start, end), strict=True))


def fingerprint(encoder: CharacterLevelEncoder) -> Fingerprint:
    """Changes when a weight is replaced, moved, converted or written to, with autocast and `torch.inference_mode`."""
    weights = list(encoder.parameters())
    mode = (torch.is_inference_mode_enabled(), product_type(weights[0]))
    return mode, *((Version(weight), weight.device) for weight in weights)


def _spellings(ids: Tensor) -> list[bytes]:
    """Each word's ids (B, T, C) as bytes, one word after the other."""
    spelled = np.ascontiguousarray(ids.flatten(0, 1).to("cpu", torch.int32).numpy())  # (B·T, C)
    return [word.tobytes() for word in spelled]
