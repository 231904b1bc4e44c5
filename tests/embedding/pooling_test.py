"""Pooling, by hand."""

import numpy as np
import pytest

from elmo_plugin.embedding.pooling import maximum, mean

LAYERS = np.array([[[1.0, -5.0], [3.0, -1.0]], [[0.0, 2.0], [8.0, 2.0]]], dtype=np.float32)  # (L, T, D)


def test_the_mean_and_the_maximum_are_over_the_tokens_of_each_layer() -> None:
    np.testing.assert_array_equal(mean(LAYERS), [[2.0, -3.0], [4.0, 2.0]])
    np.testing.assert_array_equal(maximum(LAYERS), [[3.0, -1.0], [8.0, 2.0]])
    np.testing.assert_array_equal(maximum(LAYERS[0]), [3.0, -1.0])
    assert mean(LAYERS).dtype == maximum(LAYERS).dtype == np.float32


@pytest.mark.parametrize("pool", [mean, maximum])
def test_without_tokens_both_are_zeros(pool) -> None:
    pooled = pool(np.empty((3, 0, 2), dtype=np.float32))
    assert pooled.dtype == np.float32
    np.testing.assert_array_equal(pooled, np.zeros((3, 2)))
