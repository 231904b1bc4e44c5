"""Replays of captured kernels: on a GPU, and without one with a graph that remembers operators and runs them again."""

from typing import Any

import pytest
import torch
from torch import Tensor

from elmo_plugin.kernels import KERNELS, LstmClips, graphs, reference
from elmo_plugin.kernels.graphs import GraphedKernel
from tests.kernel_oracles import DEVICE, Case, Counted, assert_same, in_float32, make_case, run
from tests.operator_graphs import OperatorGraph, record

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs want a GPU")
CLIPS = LstmClips(0.3, 0.2)


@pytest.fixture
def operator_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs without a GPU."""
    monkeypatch.setattr(torch.cuda, "CUDAGraph", OperatorGraph)
    monkeypatch.setattr(torch.cuda, "graph", record)
    monkeypatch.setattr(graphs, "_can_capture", lambda inputs: not torch.is_grad_enabled())


def results(kernel: Any, case: Case) -> dict[str, Tensor]:
    """What comes out where no gradient is wanted."""
    with torch.no_grad():
        outputs, state = kernel(*case)
    return {"outputs": outputs, **state._asdict()}


def other(case: Case, lengths: list[int], seed: int) -> Case:
    """Other sentences for the same weights."""
    new = make_case(lengths, clips=case.clips, seed=seed)
    return new._replace(weights=case.weights)


@pytest.mark.usefixtures("operator_graphs")
def test_a_shape_is_run_once_captured_once_and_replayed_from_then_on() -> None:
    case, counted = make_case([5, 0, 3], clips=CLIPS), Counted()
    graphed = GraphedKernel(counted)
    kept = []
    for seed, lengths in enumerate([[5, 0, 3], [1, 2, 4], [8, 8, 8], [2, 0, 1]]):
        now = other(case, lengths, seed)
        kept.append((results(graphed, now), results(reference, now)))
    assert counted.calls == 2
    for found, wanted in kept:  # also the first of them, which later replays must not have written to
        torch.testing.assert_close(found, wanted)


@pytest.mark.usefixtures("operator_graphs")
def test_a_replay_reads_the_weights_as_they_are_now() -> None:
    case, counted = make_case([3, 2]), Counted()
    graphed = GraphedKernel(counted)
    before = [results(graphed, case) for _ in range(3)][-1]
    with torch.no_grad():
        case.weights.recurrent.mul_(0.5)
    after = results(graphed, case)
    assert counted.calls == 2 and not torch.equal(before["outputs"], after["outputs"])
    torch.testing.assert_close(after, results(reference, case))


@pytest.mark.usefixtures("operator_graphs")
def test_other_weights_clips_types_and_shapes_have_graphs_of_their_own() -> None:
    case = make_case([3, 2])
    another = make_case([3, 2], seed=1)
    others = [
        case._replace(weights=another.weights),
        case._replace(clips=CLIPS),
        in_float32(case),
        make_case([3]),
        make_case([9, 2])._replace(weights=case.weights),
    ]
    counted = Counted()
    graphed = GraphedKernel(counted)
    for _ in range(3):
        for now in (case, *others):
            torch.testing.assert_close(results(graphed, now), results(reference, now))
    assert counted.calls == 2 * 6


@pytest.mark.usefixtures("operator_graphs")
def test_under_autocast_a_graph_casts_the_weights_each_time() -> None:
    case = in_float32(make_case([3, 2]))
    graphed = GraphedKernel(Counted())
    with torch.autocast(DEVICE, torch.bfloat16):
        for _ in range(2):
            results(graphed, case)
    with torch.no_grad():
        case.weights.recurrent.mul_(0.5)
    with torch.autocast(DEVICE, torch.bfloat16):
        torch.testing.assert_close(results(graphed, case), results(reference, case))


@pytest.mark.usefixtures("operator_graphs")
def test_the_shape_that_was_not_used_for_longest_is_forgotten() -> None:
    counted = Counted()
    graphed = GraphedKernel(counted, capacity=2)
    one, two, three = (make_case([3] * size) for size in (1, 2, 3))
    for case in (one, one, two, two, one, three):  # forgets `two`
        results(graphed, case)
    calls = counted.calls
    results(graphed, one)
    assert counted.calls == calls
    results(graphed, two)
    assert counted.calls == calls + 1


@pytest.mark.usefixtures("operator_graphs")
def test_a_graph_captured_in_inference_mode_serves_outside_it() -> None:
    case, counted = make_case([3, 2]), Counted()
    graphed = GraphedKernel(counted)
    with torch.inference_mode():
        for _ in range(2):
            graphed(*case)
    torch.testing.assert_close(results(graphed, case), results(reference, case))
    assert counted.calls == 2


def test_where_gradients_are_wanted_the_kernel_itself_runs() -> None:
    case, counted = make_case([3, 2], clips=CLIPS), Counted()
    graphed = GraphedKernel(counted)
    for _ in range(3):
        assert_same(run(graphed, case), run(reference, case))
    assert counted.calls == 3


@on_a_gpu
def test_on_a_gpu_graphed_is_the_reference() -> None:
    case = make_case([5, 0, 3], clips=CLIPS)
    for seed, lengths in enumerate([[5, 0, 3], [1, 2, 4], [8, 8, 8], [2, 0, 1]]):
        now = other(case, lengths, seed)
        torch.testing.assert_close(results(KERNELS["graphed"], now), results(reference, now))
