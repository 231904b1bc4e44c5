"""A cache of word vectors: a frozen character-level encoder computes each word only once."""

from threading import RLock
from typing import Optional

import torch
from torch import Tensor, nn

from elmo_plugin.bilm.token_encoder import CharacterLevelEncoder, TokenEncoder, TokenTable
from elmo_plugin.tensors import Versions, product_type


class WordCache:
    """The vectors of the words seen so far. The cache is cleared when a weight changes or moves.

    A full cache is cleared too; frequent words soon return. Threads may share a cache. A copied or unpickled cache
    starts empty.

    # Parameters

    capacity : `int`
        The largest number of cached words. A single batch may have more.
    """

    def __init__(self, capacity: int = 32768) -> None:
        self.capacity = capacity
        self._lock = RLock()
        self.clear()

    def __reduce__(self) -> tuple[type, tuple[int]]:
        """Copy or unpickle as an empty cache."""
        return WordCache, (self.capacity,)

    def __len__(self) -> int:
        """Return the number of cached words."""
        return len(self._rows)

    def clear(self) -> None:
        """Remove all words from the cache."""
        with self._lock:
            self._rows: dict[bytes, int] = {}
            # (rows, P); rows after the cached words are free. A biLM is also made on the device `meta`, without memory.
            self._vectors = torch.empty(0, 1, device="cpu")
            self._made_by: Optional[Versions] = None

    @torch.no_grad()
    def look_up(self, encoder: TokenEncoder, ids: Tensor) -> Optional[TokenTable]:
        """Return the vectors of all cached words (M, P), and the row of each token, from ids (B, T, C) on the CPU.

        The cache is cleared if the fingerprint of the encoder has changed, or if the cache is too full. Return `None`
        if words must not be cached, and for an encoder that looks up words anyway.
        """
        made_by = fingerprint(encoder)
        if made_by is None or not isinstance(encoder, CharacterLevelEncoder) or not ids.numel():
            return None
        words = [word.tobytes() for word in ids.flatten(0, 1).to(torch.int32).numpy()]  # B·T times C numbers
        with self._lock:
            positions = dict(zip(words, range(len(words)), strict=True))
            new = {word: position for word, position in positions.items() if word not in self._rows}
            if made_by != self._made_by or (self._rows and len(self._rows) + len(new) > self.capacity):
                self.clear()
                new = positions
            self._made_by = made_by
            if new:
                self._add(new, encoder.encode_all(ids.flatten(0, 1)[list(new.values())]))
            rows = torch.tensor([self._rows[word] for word in words]).view(ids.shape[:2])  # (B, T)
            return TokenTable(self._vectors, rows.to(self._vectors.device, non_blocking=True))

    def _add(self, words: dict[bytes, int], vectors: Tensor) -> None:
        """Append vectors. Rows in use are never overwritten, so tables returned earlier stay valid."""
        start, end = len(self._rows), len(self._rows) + len(vectors)
        if end > len(self._vectors):
            grown = vectors.new_empty(max(end, min(2 * end, self.capacity)), vectors.size(1))  # (rows, P)
            grown[:start] = self._vectors[:start]
            self._vectors = grown
        self._vectors[start:end] = vectors
        self._rows.update(zip(words, range(start, end), strict=True))


def fingerprint(part: nn.Module) -> Optional[Versions]:
    """Return a value that changes with everything that the vectors of a token encoder, or of a biLM, depend on.

    That is its parameters and buffers, their devices and types, its modules, autocast and `torch.inference_mode`.
    Return `None` if vectors must not be cached: of weights that are trained or made in inference mode, of modules with
    hooks or parametrizations, whose effect is unknown, and in a replica of `DataParallel`, which lives for one batch.
    """
    tensors, parts = [*part.parameters(), *part.buffers()], []
    for module in part.modules():
        if module._forward_hooks or module._forward_pre_hooks or "parametrizations" in module._modules:
            return None
        parts += [module, module.__dict__.get("activation")]
    for tensor in tensors:
        if tensor.requires_grad or tensor.is_inference():
            return None
    if not tensors:
        return None
    return Versions(tensors, torch.is_inference_mode_enabled(), product_type(tensors[0]), *parts)
