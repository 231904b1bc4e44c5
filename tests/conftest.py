"""One thread a process: tensors of tests are small, and threads that wait for each other on a busy machine are not."""

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture
def native_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that computes bfloat16 products natively, whatever this one does."""
    monkeypatch.setattr("elmo_plugin.bilm.precision.has_native_bfloat16", lambda: True)


@pytest.fixture
def emulated_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that would emulate them."""
    monkeypatch.setattr("elmo_plugin.bilm.precision.has_native_bfloat16", lambda: False)
