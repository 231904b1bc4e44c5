"""Batches that are too large for the memory are split, and give the same vectors."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmo_plugin.bilm import BiLM, BiLMOutput
from elmo_plugin.elmo import Elmo, ScalarMix, out_of_memory
from elmo_plugin.text import batch_to_ids
from tests.oracles import SENTENCES, lively, options

sentences = st.lists(st.sampled_from(["a", "word", "日本語"]), max_size=9)


def make_elmo(**keys: bool) -> Elmo:
    bilm = lively(BiLM(options(cell_clip=0.4, proj_clip=0.3)))
    mixes = [ScalarMix(3, 16), ScalarMix(3, 16, do_layer_norm=True)]
    return Elmo.from_parts(bilm, mixes, projection_dim=5, **keys).eval()  # type: ignore[arg-type]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int]]]:
    """B and T of each run of the biLM."""
    seen: list[tuple[int, int]] = []
    run = BiLM.forward

    def count(self: BiLM, ids: Tensor, *state: object) -> BiLMOutput:
        seen.append((ids.size(0), ids.size(1)))
        return run(self, ids, *state)  # type: ignore[arg-type]

    monkeypatch.setattr(BiLM, "forward", count)
    yield seen


@settings(max_examples=25)
@given(batch=st.lists(sentences, min_size=1, max_size=7), budget=st.integers(1, 30), boundaries=st.booleans())
def test_a_split_batch_gives_the_same_output(batch: list[list[str]], budget: int, boundaries: bool) -> None:
    elmo, ids = make_elmo(keep_sentence_boundaries=boundaries), batch_to_ids(batch)
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        wanted = elmo(ids)
        patch.setattr(out_of_memory, "TOKENS_AT_ONCE", budget)
        found = elmo(ids)
    assert torch.equal(found.mask, wanted.mask)
    torch.testing.assert_close(found.representations, wanted.representations, rtol=0, atol=1e-6)


def test_one_long_sentence_does_not_make_the_others_long(
    calls: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(out_of_memory, "TOKENS_AT_ONCE", 40)
    with torch.no_grad():
        make_elmo()(batch_to_ids([["a"] * 30, ["b", "c"], ["d"], ["e"] * 3]))
    assert sorted(calls) == [(1, 4), (1, 30), (2, 3)]  # with a column of padding, except for the longest


def test_a_batch_that_runs_out_of_memory_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    elmo, ids = make_elmo(), batch_to_ids(SENTENCES)
    with torch.no_grad():
        wanted = elmo(ids)
    run = BiLM.forward

    def small(self: BiLM, ids: Tensor, *state: object) -> BiLMOutput:
        if len(ids) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
        return run(self, ids, *state)  # type: ignore[arg-type]

    monkeypatch.setattr(BiLM, "forward", small)
    with torch.no_grad():
        found = elmo(ids)
    torch.testing.assert_close(found.representations, wanted.representations, rtol=0, atol=1e-6)


@pytest.mark.parametrize("message", ["CUDA out of memory", "a matrix of the wrong size"])
def test_other_errors_and_those_of_one_sentence_are_raised(message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def fail(self: BiLM, ids: Tensor, *state: object) -> BiLMOutput:
        tried.append(len(ids))
        raise RuntimeError(message)

    monkeypatch.setattr(BiLM, "forward", fail)
    with torch.no_grad(), pytest.raises(RuntimeError, match=message):
        make_elmo()(batch_to_ids([["a"], ["b"]]))
    assert tried == ([2, 1] if "memory" in message else [2])


def test_a_batch_is_not_split_in_training(calls: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out_of_memory, "TOKENS_AT_ONCE", 1)
    make_elmo()(batch_to_ids(SENTENCES))
    assert len(calls) == 1


def test_a_sentence_of_thousands_of_tokens_is_read_to_its_end() -> None:
    elmo = make_elmo()
    ids = batch_to_ids([["a", "word", "b"] * 1000])
    with torch.no_grad():
        vectors = elmo(ids).representations[0][0]  # (3000, 5)
        tail = elmo(ids[:, -600:]).representations[0][0]
    assert vectors.isfinite().all()
    # The LSTMs forget what they read long before.
    torch.testing.assert_close(vectors[-30:], tail[-30:], rtol=0, atol=1e-4)
