"""Pool the vectors of any number of tokens into one vector; of no tokens into zeros."""

import numpy as np


def mean(vectors: np.ndarray) -> np.ndarray:
    """Return the mean of each number over the tokens: (…, T, D) to (…, D)."""
    return vectors.sum(axis=-2) / max(vectors.shape[-2], 1)


def maximum(vectors: np.ndarray) -> np.ndarray:
    """Return the maximum of each number over the tokens: (…, T, D) to (…, D)."""
    return vectors.max(axis=-2) if vectors.shape[-2] else mean(vectors)
