"""Windows whose forward and backward pass are replayed: on a GPU, and without one with graphs of operators."""

from typing import Any

import pytest
import torch

from elmo_plugin.kernels import KERNELS, LstmClips, LstmState, graphed_windows, reference
from elmo_plugin.kernels.graphed_windows import GraphedWindows
from tests.kernel_oracles import DEVICE, Case, Counted, assert_same, in_float32, make_case, run
from tests.operator_graphs import OperatorGraph, record

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs want a GPU")
CLIPS = LstmClips(0.3, 0.2)


@pytest.fixture
def operator_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs without a GPU."""
    monkeypatch.setattr(torch.cuda, "CUDAGraph", OperatorGraph)
    monkeypatch.setattr(torch.cuda, "graph", record)
    monkeypatch.setattr(graphed_windows, "_are_on_a_free_gpu", lambda tensors: True)


def windows(case: Case, n: int) -> list[Case]:
    """Others for the same weights, each of the first one's shape."""
    counts = case.lengths.tolist()
    width = (case.inputs.size(-1), case.state.cell.size(-1), case.state.hidden.size(-1))
    new = [
        make_case(counts[::-1], sizes=width, projected=case.weights.projection is not None, seed=9 + k)
        for k in range(n)
    ]
    return [one._replace(weights=case.weights, clips=case.clips) for one in new]


@pytest.mark.usefixtures("operator_graphs")
@pytest.mark.parametrize("projected", [True, False])
def test_a_window_is_run_once_captured_once_and_both_passes_replayed(projected: bool) -> None:
    case, counted = make_case([5, 2, 5], clips=CLIPS, projected=projected), Counted()
    graphed = GraphedWindows(counted)
    kept = [(run(graphed, now), run(reference, now)) for now in [case, *windows(case, 3)]]
    assert counted.calls == 2
    for found, wanted in kept:  # also the first of them, which later replays must not have written to
        assert_same(found, wanted)


@pytest.mark.usefixtures("operator_graphs")
def test_gradients_add_up_over_windows_as_without_a_graph() -> None:
    """What is replayed next must not be written to what autograd has kept as `grad`."""
    case = make_case([4, 4])
    every = [case, *windows(case, 3)]
    totals = []
    for kernel in (GraphedWindows(Counted()), reference):
        for leaf in case.leaves.values():
            leaf.grad = None
        for now in every:
            outputs, _ = kernel(*now)
            outputs.square().sum().backward()
        totals.append([weight.grad for weight in case.weights])  # type: ignore[union-attr]
    torch.testing.assert_close(*totals, rtol=1e-10, atol=1e-10)


@pytest.mark.usefixtures("operator_graphs")
def test_a_step_of_training_is_seen_by_the_next_replay() -> None:
    case, counted = make_case([3, 3]), Counted()
    graphed = GraphedWindows(counted)
    for _ in range(3):
        run(graphed, case)
        with torch.no_grad():
            case.weights.recurrent.mul_(0.5)
    assert_same(run(graphed, case), run(reference, case))
    assert counted.calls == 2


@pytest.mark.usefixtures("operator_graphs")
def test_a_second_window_before_the_first_ones_backward_pass_runs_by_itself() -> None:
    case, counted = make_case([3, 3]), Counted()
    graphed = GraphedWindows(counted)
    for _ in range(2):
        run(graphed, case)
    one, other = windows(case, 2)
    found = [graphed(*now)[0] for now in (one, other)]
    assert counted.calls == 3
    wanted = [reference(*now)[0] for now in (one, other)]
    gradients = [torch.autograd.grad(sum(o.square().sum() for o in each), case.weights) for each in (found, wanted)]  # type: ignore
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)


@pytest.mark.usefixtures("operator_graphs")
def test_a_window_that_nobody_differentiates_is_waited_for_no_longer_than_it_lives() -> None:
    case, counted = make_case([3, 3]), Counted()
    graphed = GraphedWindows(counted)
    for _ in range(2):
        run(graphed, case)
    outputs, state = graphed(*case)
    del outputs, state
    graphed(*case)
    assert counted.calls == 2


@pytest.mark.usefixtures("operator_graphs")
def test_a_graph_goes_backward_once() -> None:
    case, graphed = make_case([3, 3]), GraphedWindows(Counted())
    for _ in range(2):
        run(graphed, case)
    loss = graphed(*case)[0].sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="can go backward through a window once"):
        loss.backward()


@pytest.mark.usefixtures("operator_graphs")
def test_another_shape_or_type_runs_by_itself_until_it_comes_twice_running() -> None:
    case, counted = make_case([3, 3]), Counted()
    short = make_case([2, 2])._replace(weights=case.weights)
    graphed = GraphedWindows(counted)
    calls = []
    for now in (case, case, short, case, short, short, case, case, case._replace(clips=CLIPS), in_float32(case)):
        assert_same(run(graphed, now), run(reference, now)) if now.inputs.dtype == torch.float64 else run(graphed, now)
        calls.append(counted.calls)
    assert calls == [1, 2, 3, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.usefixtures("operator_graphs")
def test_weights_and_states_that_want_no_gradient_have_none() -> None:
    case, counted = make_case([3, 3]), Counted()
    state = LstmState(*(part.detach() for part in case.state))
    frozen = case._replace(state=state, weights=case.weights._replace(recurrent=case.weights.recurrent.detach()))
    graphed = GraphedWindows(counted)
    for _ in range(3):
        outputs, final = graphed(*frozen)
        (found,) = torch.autograd.grad(outputs.sum() + final.cell.sum(), [case.weights.input])
    outputs, final = reference(*frozen)
    (wanted,) = torch.autograd.grad(outputs.sum() + final.cell.sum(), [case.weights.input])
    torch.testing.assert_close(found, wanted)
    assert counted.calls == 2
    with torch.no_grad():
        graphed(*frozen)
    graphed(
        *frozen._replace(inputs=case.inputs.detach(), weights=type(case.weights)(*(w.detach() for w in case.weights)))
    )  # type: ignore
    assert counted.calls == 4


@pytest.mark.usefixtures("operator_graphs")
def test_under_autocast_a_graph_casts_the_weights_each_time() -> None:
    case = in_float32(make_case([3, 3]))
    graphed = GraphedWindows(Counted())
    for _ in range(3):
        with torch.autocast(DEVICE, torch.bfloat16):
            found, _ = graphed(*case)
            wanted, _ = reference(*case)
        torch.testing.assert_close(found, wanted)
        found.sum().backward()
        with torch.no_grad():
            case.weights.recurrent.mul_(0.5)


@pytest.mark.usefixtures("operator_graphs")
def test_graphs_go_with_the_layer() -> None:
    graphed = GraphedWindows(Counted())
    case = make_case([3, 3])
    for _ in range(3):
        run(graphed, case)
    assert len(graphed._windows) == 1
    del case
    assert len(graphed._windows) == len(graphed._last_keys) == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="of what happens without a GPU")
def test_on_a_cpu_it_is_the_plain_call() -> None:
    case, counted = make_case([3, 2], clips=CLIPS), Counted()
    graphed = GraphedWindows(counted)
    for _ in range(3):
        assert_same(run(graphed, case), run(reference, case))
    assert counted.calls == 3


@on_a_gpu
def test_on_a_gpu_graphed_windows_are_the_reference() -> None:
    case = make_case([5, 5, 3], clips=CLIPS)
    for now in [case, *windows(case, 3)]:
        found: Any = run(KERNELS["graphed"], now)
        assert_same(found, run(reference, now))
