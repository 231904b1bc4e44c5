"""Promise 1: the same sentence gives the same vector, in any batch and after any other sentence."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmo_plugin.bilm import CHOICES, BiLM, InitialState, WarmState, ZeroState, warm_up
from elmo_plugin.checkpoints import BilmTf, Checkpoint, build_bilm, load_checkpoint
from elmo_plugin.elmo import Elmo, ScalarMix
from elmo_plugin.lstm import KERNELS
from elmo_plugin.text import batch_to_ids
from tests.oracles import SENTENCES, lively, options

Sentence = list[str]
Run = Callable[[list[Sentence]], list[Tensor]]

words = st.sampled_from(["a", "word", "Ünïcödé", "日本語", "b" * 300, ""]) | st.text(max_size=12)
sentences = st.lists(words, max_size=7)
batches = st.lists(sentences, min_size=1, max_size=5)
few_examples = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def make_bilm() -> BiLM:
    """Return a biLM with a warm state and clips that its values reach."""
    bilm = lively(BiLM(options(cell_clip=0.4, proj_clip=0.3)))
    bilm.warm_state = warm_up(bilm, [batch_to_ids(SENTENCES)])
    return bilm


def run_bilm(bilm: BiLM) -> Run:
    """Return a function to the layers of each sentence (L, its length + 2, D)."""

    def run(batch: list[Sentence]) -> list[Tensor]:
        with torch.no_grad():
            layers = bilm(batch_to_ids(batch)).layers
        return [layers[:, row, : len(sentence) + 2] for row, sentence in enumerate(batch)]

    return run


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


def make_runs() -> dict[str, Run]:
    """Return the biLM alone, and ELMo from either state with two mixes, one of which normalizes layers."""
    runs = {"bilm": run_bilm(make_bilm())}
    for name, state in (("zero", ZeroState()), ("warm", WarmState())):
        mixes = [ScalarMix(3, 16, [0.5, -1.0, 1.0]), ScalarMix(3, 16, do_layer_norm=True)]
        runs[name] = run_elmo(Elmo.from_parts(make_bilm(), list(mixes), dropout=0.0, initial_state=state))
    return runs


RUNS = make_runs()
every_run = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


def assert_same(found: list[Tensor], wanted: list[Tensor]) -> None:
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


@every_run
@few_examples
@given(batch=batches, order=st.randoms(use_true_random=False))
@example(batch=SENTENCES, order=None)
@example(batch=[[], ["a"], [], ["a"] * 30], order=None)
def test_alone_and_in_any_batch_in_any_order(run: Run, batch: list[Sentence], order: object) -> None:
    alone = [run([sentence])[0] for sentence in batch]
    assert_same(run(batch), alone)
    rows = list(range(len(batch)))[::-1]
    if order is not None:
        order.shuffle(rows)  # type: ignore[attr-defined]
    assert_same(run([batch[row] for row in rows]), [alone[row] for row in rows])


@every_run
@few_examples
@given(sentence=sentences, before=st.lists(batches, max_size=3))
@example(sentence=["a", "word"], before=[SENTENCES, [["word"] * 20]])
def test_after_any_other_call_and_any_number_of_times(
    run: Run, sentence: Sentence, before: list[list[Sentence]]
) -> None:
    """The same call gives the same bits."""
    first = run([sentence])[0]
    for batch in before:
        run(batch)
    assert torch.equal(run([sentence])[0], first)


@few_examples
@given(batch=batches, padding=st.integers(0, 9))
def test_beside_any_amount_of_padding(batch: list[Sentence], padding: int) -> None:
    bilm = make_bilm()
    ids = batch_to_ids(batch)
    wider = torch.cat([ids, ids.new_zeros(len(batch), padding, 50)], dim=1)
    layers, padded = bilm(ids).layers, bilm(wider).layers
    torch.testing.assert_close(padded[:, :, : layers.size(2)], layers, rtol=1e-6, atol=1e-6)
    assert not padded[:, :, layers.size(2) :].any()


def test_in_training_as_in_evaluation() -> None:
    bilm = make_bilm()
    trained = run_bilm(bilm.train())(SENTENCES)
    assert_same(run_bilm(bilm.eval())(SENTENCES), trained)


BOUNDS = {"float32": 2e-6, "bfloat16": 2e-2, "int8": 2e-2}
"""The largest difference that the documentation promises, as a share of the largest number of the vectors."""
LONG = [[f"w{row}{column}" for column in range(30)] for row in range(2)]
ON_CPU = [name for name in KERNELS if name not in ("auto", "fused")]  # `auto` chooses one of the others
PAIRS = [(kernel, precision) for kernel in ON_CPU for precision in CHOICES if precision != "auto"]


@pytest.mark.parametrize(("kernel", "precision"), PAIRS)
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    state=st.sampled_from(["zero", "warm"]),
    batch=batches,
    before=batches,
    seed=st.integers(0, 9),
    n_threads=st.just(1),  # on a busy machine, threads that wait for each other are slow
)
@example(state="zero", batch=SENTENCES + LONG, before=LONG[:1], seed=1, n_threads=2)
@example(state="warm", batch=SENTENCES + LONG, before=[["a"]], seed=2, n_threads=1)
def test_with_every_kernel_precision_state_order_and_number_of_threads(
    kernel: str,
    precision: str,
    state: str,
    batch: list[Sentence],
    before: list[Sentence],
    seed: int,
    n_threads: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("elmo_plugin.bilm.elmo_lstm.TOKENS_PER_BLOCK", 20)
    run = english_tiny(kernel, precision, state)
    alone = [run([sentence])[0] for sentence in batch]
    order = random.Random(seed).sample(range(len(batch)), len(batch))
    with threads(n_threads):
        run(before)
        found, again = (run([batch[row] for row in order]) for _ in range(2))
    for row, ours, repeated in zip(order, found, again, strict=True):
        assert torch.equal(repeated, ours)
        assert (ours - alone[row]).abs().max() <= BOUNDS[precision] * alone[row].abs().max()
        if precision == "float32":
            (plain,) = english_tiny("reference", precision, state)([batch[row]])
            assert (ours - plain).abs().max() <= BOUNDS[precision] * plain.abs().max()


@pytest.mark.parametrize("kernel", ON_CPU)
def test_from_a_carried_state_the_same_calls_give_the_same_bits(kernel: str) -> None:
    runs = [english_tiny.__wrapped__(kernel, "float32", "carried") for _ in range(2)]
    first, again = ([layers for batch in (SENTENCES, LONG, SENTENCES[::-1]) for layers in run(batch)] for run in runs)
    assert all(map(torch.equal, first, again))


def reload_state_dict(bilm: BiLM, folder: Path) -> BiLM:
    """Save and load with `torch.save`."""
    torch.save(bilm.state_dict(), folder / "weights.th")
    return build_bilm(Checkpoint(bilm.options, torch.load(folder / "weights.th", weights_only=True)))


def reload_bilm_tf(bilm: BiLM, folder: Path) -> BiLM:
    """Save and load in bilm-tf's format."""
    BilmTf().write(Checkpoint(bilm.options, bilm.state_dict()), folder)
    return build_bilm(BilmTf().read(folder))


@pytest.mark.parametrize("reload", [reload_state_dict, reload_bilm_tf])
@pytest.mark.parametrize("state", [ZeroState(), WarmState()])
def test_after_saving_and_loading(tmp_path: Path, reload: Callable[[BiLM, Path], BiLM], state: ZeroState) -> None:
    bilm = make_bilm()
    again = reload(deepcopy(bilm), tmp_path)
    assert_same(run_bilm(again)(SENTENCES), run_bilm(bilm)(SENTENCES))
    before, after = (
        run_elmo(Elmo.from_parts(model, [ScalarMix(3, 16)], dropout=0.0, initial_state=state))
        for model in (bilm, again)
    )
    assert_same(after(SENTENCES), before(SENTENCES))
