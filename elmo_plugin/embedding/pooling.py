"""Pool the vectors of tokens into one vector, which is zeros if there are no tokens."""

import numpy as np


def mean(vectors: np.ndarray) -> np.ndarray:
    """Return the mean over the tokens: (…, T, D) to (…, D)."""
    return vectors.sum(axis=-2) / max(vectors.shape[-2], 1)


def maximum(vectors: np.ndarray) -> np.ndarray:
    """Return the maximum over the tokens: (…, T, D) to (…, D)."""
    return vectors.max(axis=-2) if vectors.shape[-2] else mean(vectors)
