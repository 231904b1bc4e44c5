"""Promise 1: the same sentence gives the same vector, in any batch and after any other sentence."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmo_plugin.bilm import BiLM, InitialState, warm_up
from elmo_plugin.checkpoints import build_bilm, load_checkpoint
from elmo_plugin.elmo import Elmo, ScalarMix
from elmo_plugin.text import batch_to_ids
from tests.oracles import SENTENCES, lively, options

Sentence = list[str]
Run = Callable[[list[Sentence]], list[Tensor]]

words = st.sampled_from(["a", "word", "Ünïcödé", "日本語", "b" * 300, ""]) | st.text(max_size=12)
sentences = st.lists(words, max_size=7)
batches = st.lists(sentences, min_size=1, max_size=5)
few_examples = settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])


def run_elmo(elmo: Elmo) -> Run:
    """Return a function to the two representations of each sentence (2, its length, D)."""

    def run(batch: list[Sentence]) -> list[Tensor]:
        with torch.no_grad():
            vectors = torch.stack(elmo(batch_to_ids(batch)).representations)
        return [vectors[:, row, : len(sentence)] for row, sentence in enumerate(batch)]

    return run


@cache
def english_tiny(kernel: str, precision: str, state: str) -> Run:
    """Return a function to the layers of each sentence (L, its length + 2, D), with trained weights."""
    bilm = build_bilm(load_checkpoint("english-tiny"), kernel)
    bilm.warm_state = warm_up(bilm, [batch_to_ids(SENTENCES)])
    bilm.requires_grad_(False).set_precision(precision)
    elmo = Elmo.from_parts(bilm, [ScalarMix(3, 512)], initial_state=InitialState.by_name(state)())

    def run(batch: list[Sentence]) -> list[Tensor]:
        layers, _ = elmo.layers(batch_to_ids(batch))
        return [layers[:, row, : len(sentence) + 2] for row, sentence in enumerate(batch)]

    return run


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Use this many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    yield
    torch.set_num_threads(before)


def make_run() -> Run:
    """Return ELMo with clips that its values reach, and with two mixes, one of which normalizes layers."""
    bilm = lively(BiLM(options(cell_clip=0.4, proj_clip=0.3)))
    mixes = [ScalarMix(3, 16, [0.5, -1.0, 1.0]), ScalarMix(3, 16, do_layer_norm=True)]
    return run_elmo(Elmo.from_parts(bilm, list(mixes), dropout=0.0))


RUN = make_run()


def assert_same(found: list[Tensor], wanted: list[Tensor]) -> None:
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@few_examples
@given(batch=batches, order=st.randoms(use_true_random=False))
@example(batch=SENTENCES, order=None)
@example(batch=[[], ["a"], [], ["a"] * 30], order=None)
def test_alone_and_in_any_batch_in_any_order(batch: list[Sentence], order: object) -> None:
    alone = [RUN([sentence])[0] for sentence in batch]
    assert_same(RUN(batch), alone)
    rows = list(range(len(batch)))[::-1]
    if order is not None:
        order.shuffle(rows)  # type: ignore[attr-defined]
    assert_same(RUN([batch[row] for row in rows]), [alone[row] for row in rows])


@pytest.mark.slow
@few_examples
@given(sentence=sentences, before=st.lists(batches, max_size=3))
@example(sentence=["a", "word"], before=[SENTENCES, [["word"] * 20]])
def test_after_any_other_call_and_any_number_of_times(sentence: Sentence, before: list[list[Sentence]]) -> None:
    """The same call gives the same bits."""
    first = RUN([sentence])[0]
    for batch in before:
        RUN(batch)
    assert torch.equal(RUN([sentence])[0], first)


BOUNDS = {"float32": 2e-6, "bfloat16": 2e-2, "int8": 2e-2}
"""The largest difference that the documentation promises, as a share of the largest number of the vectors."""
LONG = [[f"w{row}{column}" for column in range(30)] for row in range(2)]


@pytest.mark.parametrize(
    ("precision", "state", "n_threads"),
    [("float32", "zero", 2), ("float32", "warm", 1), ("bfloat16", "warm", 1), ("int8", "zero", 1)],
)
@pytest.mark.usefixtures("rounded_small_weights")
def test_with_every_precision_state_order_and_number_of_threads(
    precision: str, state: str, n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = SENTENCES + LONG
    monkeypatch.setattr("elmo_plugin.bilm.elmo_lstm.GATES_PER_BLOCK", 20 * 2048)
    run = english_tiny("packed", precision, state)
    alone = [run([sentence])[0] for sentence in batch]
    order = random.Random(1).sample(range(len(batch)), len(batch))
    with threads(n_threads):
        run(LONG[:1])
        found, again = (run([batch[row] for row in order]) for _ in range(2))
    for row, ours, repeated in zip(order, found, again, strict=True):
        assert torch.equal(repeated, ours)
        assert (ours - alone[row]).abs().max() <= BOUNDS[precision] * alone[row].abs().max()
        if precision == "float32":
            (plain,) = english_tiny("reference", precision, state)([batch[row]])
            assert (ours - plain).abs().max() <= BOUNDS[precision] * plain.abs().max()
