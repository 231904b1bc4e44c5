import sys
from itertools import pairwise

import pytest
from allennlp.common.checks import ConfigurationError
from hypothesis import given
from hypothesis.strategies import floats, lists

from elmo_plugin.analysis.canvas import drawing, spread


@given(lists(floats(-100, 100), min_size=1, max_size=8))
def test_labels_are_apart_in_the_same_order_and_moved_no_more_than_it_takes(positions: list[float]) -> None:
    moved = spread(positions, 1.0)
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    gaps = [moved[b] - moved[a] for a, b in pairwise(order)]
    assert all(gap > 1 - 1e-9 for gap in gaps)
    assert sum(moved) == pytest.approx(sum(positions), abs=1e-6)
    if all(positions[b] - positions[a] >= 1 for a, b in pairwise(order)):
        assert moved == positions


def test_without_matplotlib_the_error_says_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'elmo-plugin\[report\]'"), drawing():
        pass
