"""The kernels: the fast against the obvious, and both against `torch.nn.LSTM` where that can do the same."""

from typing import Any, NamedTuple, Optional

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmo_plugin.kernels import KERNELS, Kernel, LstmClips, LstmState, LstmWeights, batched, kernel_by_name, reference
from elmo_plugin.kernels.recurrence import PackedRecurrence

FAST = sorted(set(KERNELS) - {"reference"})
UNCLIPPED = LstmClips()


class Case(NamedTuple):
    """All that a kernel takes; the tensors are float64 and want gradients."""

    inputs: Tensor
    lengths: Tensor
    weights: LstmWeights
    state: LstmState
    clips: LstmClips

    @property
    def leaves(self) -> dict[str, Tensor]:
        """Every tensor that has a gradient, by name."""
        named = {"inputs": self.inputs, **self.weights._asdict(), **self.state._asdict()}
        return {name: tensor for name, tensor in named.items() if tensor is not None}


class Results(NamedTuple):
    """All that is to be the same."""

    outputs: Tensor
    state: LstmState
    gradients: dict[str, Tensor]


def make_case(
    lengths: list[int],
    steps: Optional[int] = None,
    sizes: tuple[int, int, int] = (5, 7, 3),
    clips: LstmClips = UNCLIPPED,
    projected: bool = True,
    seed: int = 0,
) -> Case:
    """Random values; `sizes` are I, H and P, and P is H where nothing is projected."""
    generator = torch.Generator().manual_seed(seed)
    input_dim, cell_dim, output_dim = sizes
    output_dim = output_dim if projected else cell_dim

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    weights = LstmWeights(
        input=draw(4 * cell_dim, input_dim),
        recurrent=draw(4 * cell_dim, output_dim),
        bias=draw(4 * cell_dim),
        projection=draw(output_dim, cell_dim) if projected else None,
    )
    state = LstmState(hidden=draw(len(lengths), output_dim), cell=draw(len(lengths), cell_dim))
    longest = max([0, *lengths]) if steps is None else steps
    return Case(draw(len(lengths), longest, input_dim), torch.tensor(lengths, dtype=torch.long), weights, state, clips)


def differentiate(outputs: Tensor, state: LstmState, leaves: dict[str, Tensor]) -> dict[str, Tensor]:
    """Gradients of a sum in which each number that came out has a weight of its own."""
    generator = torch.Generator().manual_seed(1)
    drawn = [torch.randn(part.shape, generator=generator, dtype=part.dtype) for part in (outputs, *state)]
    loss = sum((part * weight).sum() for part, weight in zip((outputs, *state), drawn, strict=True))
    assert isinstance(loss, Tensor)
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(leaves, found, strict=True))


def run(kernel: Kernel, case: Case) -> Results:
    """Outputs, final state and every gradient of a kernel."""
    outputs, state = kernel(*case)
    return Results(outputs, state, differentiate(outputs, state, case.leaves))


def run_torch(case: Case) -> Results:
    """The same of `torch.nn.LSTM`, which has no clips and reads no empty sentence."""
    input_dim, cell_dim, projection = case.inputs.size(-1), case.state.cell.size(-1), case.weights.projection
    proj_size = 0 if projection is None else projection.size(0)
    lstm = torch.nn.LSTM(input_dim, cell_dim, batch_first=True, proj_size=proj_size, dtype=torch.float64)
    values = dict(zip(("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "weight_hr_l0"), case.weights, strict=True))
    weights = {name: value for name, value in values.items() if value is not None}
    weights["bias_hh_l0"] = torch.zeros(4 * cell_dim, dtype=torch.float64)
    packed = pack_padded_sequence(case.inputs, case.lengths, batch_first=True, enforce_sorted=False)
    start = (case.state.hidden.unsqueeze(0), case.state.cell.unsqueeze(0))
    sequence, (hidden, cell) = torch.func.functional_call(lstm, weights, (packed, start))
    outputs, _ = pad_packed_sequence(sequence, batch_first=True, total_length=case.inputs.size(1))
    state = LstmState(hidden.squeeze(0), cell.squeeze(0))
    return Results(outputs, state, differentiate(outputs, state, case.leaves))


def assert_same(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found._asdict(), wanted._asdict(), rtol=1e-10, atol=1e-10)


cases = st.builds(
    make_case,
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    steps=st.just(6) | st.none(),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 7), st.integers(1, 7)),
    clips=st.builds(LstmClips, st.sampled_from([None, 0.3, 2.0]), st.sampled_from([None, 0.2, 2.0])),
    projected=st.booleans(),
    seed=st.integers(0, 9),
)


@pytest.mark.parametrize("name", FAST)
@settings(max_examples=150)
@given(case=cases)
@example(case=make_case([1]))
@example(case=make_case([1, 0, 3], steps=9))
@example(case=make_case([0, 0], steps=2))
@example(case=make_case([0]))
@example(case=make_case([]))
@example(case=make_case([4, 4, 4], projected=False, clips=LstmClips(0.3, 0.2)))
@example(case=make_case([3, 2, 5], sizes=(1, 1, 1), clips=LstmClips(0.3, 0.2)))
def test_each_kernel_is_the_reference_in_outputs_state_and_every_gradient(name: str, case: Case) -> None:
    assert_same(run(KERNELS[name], case), run(reference, case))


@pytest.mark.parametrize("name", sorted(KERNELS))
@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("lengths", [[5], [1], [3, 3], [2, 6, 1, 4]])
def test_each_kernel_is_torchs_lstm_where_nothing_is_clipped(name: str, projected: bool, lengths: list[int]) -> None:
    case = make_case(lengths, steps=max(lengths) + 1, projected=projected, seed=3)
    assert_same(run(KERNELS[name], case), run_torch(case))


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_clips_bound_the_cell_and_the_projected_output_and_stop_gradients(name: str) -> None:
    clips = LstmClips(cell=0.3, projection=0.2)
    case = make_case([40], sizes=(5, 7, 3), clips=clips)
    outputs, state = KERNELS[name](*case)
    assert (outputs.abs().max(), state.cell.abs().max()) == (0.2, 0.3)
    free, _ = KERNELS[name](*case._replace(clips=UNCLIPPED))
    assert free.abs().max() > 0.2
    at_bound = (outputs[0, -1].abs() == 0.2).nonzero()[0, 0]
    (gradient,) = torch.autograd.grad(outputs[0, -1, at_bound], [case.inputs], materialize_grads=True)
    assert not gradient.any()


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_without_a_projection_only_the_cell_is_clipped(name: str) -> None:
    """TensorFlow's `LSTMCell` looks at `proj_clip` only where it projects."""
    case = make_case([6, 3], projected=False, clips=LstmClips(cell=None, projection=0.01))
    assert_same(run(KERNELS[name], case), run(KERNELS[name], case._replace(clips=UNCLIPPED)))


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_what_lies_beyond_a_sentence_is_not_read(name: str) -> None:
    case = make_case([2, 0, 4], steps=5)
    inputs = case.inputs.detach().clone()
    inputs[0, 2:] = inputs[1] = inputs[2, 4:] = torch.nan
    outputs, state = KERNELS[name](*case._replace(inputs=inputs))
    wanted_outputs, wanted_state = KERNELS[name](*case)
    assert torch.equal(outputs, wanted_outputs) and torch.equal(state.cell, wanted_state.cell)
    assert not outputs[0, 2:].any() and not outputs[1].any() and not outputs[2, 4:].any()


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_an_empty_sentence_keeps_its_state(name: str) -> None:
    case = make_case([0, 3, 0])
    outputs, state = KERNELS[name](*case)
    assert not outputs[[0, 2]].any()
    assert torch.equal(state.hidden[[0, 2]], case.state.hidden[[0, 2]])
    assert torch.equal(state.cell[[0, 2]], case.state.cell[[0, 2]])


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_a_sentence_read_in_two_parts_is_the_sentence_read_at_once(name: str) -> None:
    case = make_case([6, 4], clips=LstmClips(0.8, 0.5))
    whole, end = KERNELS[name](*case)
    first, middle = KERNELS[name](case.inputs[:, :2], torch.tensor([2, 2]), case.weights, case.state, case.clips)
    second, last = KERNELS[name](case.inputs[:, 2:], torch.tensor([4, 2]), case.weights, middle, case.clips)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole)
    torch.testing.assert_close(last, end)


def in_float32(case: Case) -> Case:
    """The same numbers in the type that autocast takes notice of, weights as large as those of a trained layer."""
    scale = {"input": 0.5, "recurrent": 0.3, "bias": 0.5, "projection": 0.5}
    leaves = {name: (scale.get(name, 1.0) * value).detach().float() for name, value in case.leaves.items()}
    for leaf in leaves.values():
        leaf.requires_grad_()
    weights = LstmWeights(*(leaves.get(name) for name in LstmWeights._fields))  # type: ignore[arg-type]
    return case._replace(inputs=leaves["inputs"], weights=weights, state=LstmState(leaves["hidden"], leaves["cell"]))


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("clips", [UNCLIPPED, LstmClips(1.0, 0.6)])
def test_in_bfloat16_products_alone_are_rounded(projected: bool, clips: LstmClips) -> None:
    """Outputs, states and gradients stay float32, and close to those of the reference without autocast."""
    case = in_float32(make_case([12, 7, 9, 1], sizes=(16, 24, 12), clips=clips, projected=projected))
    wanted = run(reference, case)
    with torch.autocast("cpu", torch.bfloat16):
        outputs, state = batched(*case)
    gradients = differentiate(outputs, state, case.leaves)
    found: dict[str, Tensor] = {
        "outputs": outputs,
        **state._asdict(),
        **{f"d {name}": d for name, d in gradients.items()},
    }
    by_reference = [wanted.outputs, *wanted.state, *wanted.gradients.values()]
    assert not torch.equal(outputs, wanted.outputs)
    for (name, value), right in zip(found.items(), by_reference, strict=True):
        assert value.dtype == torch.float32, name
        assert torch.cosine_similarity(value.flatten(), right.flatten(), dim=0) > 0.99, name
        assert (value - right).norm() < 0.03 * right.norm(), name


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("clips", [UNCLIPPED, LstmClips(0.5, 0.4)])
def test_the_backward_pass_written_out_is_the_slope_of_the_forward_pass(projected: bool, clips: LstmClips) -> None:
    case = make_case([4, 2, 1], projected=projected, clips=clips)
    sizes = [3, 2, 1, 1]  # sentences at each step
    gates = torch.randn(sum(sizes), len(case.weights.recurrent), dtype=torch.float64, requires_grad=True)
    _, recurrent, _, projection = case.weights

    def apply(*tensors: Optional[Tensor]) -> Any:  # `gradcheck` would take the clips apart
        return PackedRecurrence.apply(*tensors, sizes, clips)

    outputs, _, cell = apply(gates, recurrent, projection, *case.state)
    for values, bound in ((cell, clips.cell), (outputs, clips.projection if projected else None)):
        assert bound is None or 0 < int((values.abs() == bound).sum()) < values.numel()
    assert torch.autograd.gradcheck(apply, (gates, recurrent, projection, *case.state))


def test_kernels_are_found_by_name() -> None:
    assert kernel_by_name("reference") is reference
    assert kernel_by_name("batched") is batched
    assert kernel_by_name("auto") in KERNELS.values()
    with pytest.raises(ValueError, match=r"no kernel is called 'cudnn'; wanted one of auto, batched, .*reference"):
        kernel_by_name("cudnn")
