"""One vector for any number of tokens, of none zeros."""

import numpy as np


def mean(vectors: np.ndarray) -> np.ndarray:
    """(…, T, D) to (…, D): each number's mean over the tokens."""
    return vectors.sum(axis=-2) / max(vectors.shape[-2], 1)


def maximum(vectors: np.ndarray) -> np.ndarray:
    """(…, T, D) to (…, D): each number's largest over the tokens."""
    return vectors.max(axis=-2) if vectors.shape[-2] else mean(vectors)
