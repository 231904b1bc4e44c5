"""Each fast kernel equals the reference, and without clips all equal `torch.nn.LSTM`."""

from importlib.util import find_spec
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings

from elmo_plugin.lstm import KERNELS, LstmClips, packed
from elmo_plugin.lstm.reference import reference
from tests.kernel_oracles import (
    DEVICE,
    UNCLIPPED,
    Case,
    assert_same,
    cases,
    differentiate,
    fit,
    in_float32,
    layer,
    make_case,
    run,
    run_torch,
)

FUSED = pytest.param(
    "fused", marks=[pytest.mark.slow, pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")]
)
EACH = ["packed", FUSED, "reference"]
CLIPS = LstmClips(0.3, 0.2)


@settings(max_examples=30)
@given(case=cases)
@example(case=make_case([1]))
@example(case=make_case([1, 0, 3], steps=9))
@example(case=make_case([0, 0], steps=2))
@example(case=make_case([]))
@example(case=make_case([4, 4, 4], projected=False, clips=CLIPS))
@example(case=make_case([3, 2, 5], sizes=(1, 1, 1), clips=CLIPS))
def test_packed_equals_the_reference_with_and_without_gradients(case: Case) -> None:
    assert_same(run(packed, case), run(reference, case))
    with torch.no_grad():
        torch.testing.assert_close(layer(packed, *case), layer(reference, *case), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize("projected", [True, False])
def test_each_kernel_without_clips_equals_torchs_lstm(name: str, projected: bool) -> None:
    for lengths in ([5], [2, 6, 1, 4]):
        case = fit(name, make_case(lengths, steps=max(lengths) + 1, projected=projected, seed=3))
        assert_same(run(KERNELS[name], case), run_torch(case))


@pytest.mark.parametrize("name", EACH)
def test_clips_bound_the_cell_and_the_projected_output_and_stop_gradients(name: str) -> None:
    case = fit(name, make_case([8], clips=CLIPS))
    outputs, state = layer(KERNELS[name], *case)
    assert (outputs.abs().max(), state.cell.abs().max()) == (0.2, 0.3)
    free, _ = layer(KERNELS[name], *case._replace(clips=UNCLIPPED))
    assert free.abs().max() > 0.2
    first = outputs[0, 0]  # (T, P)
    step, place = (first.abs() == first.abs().max()).nonzero()[-1]
    (gradient,) = torch.autograd.grad(first[step, place], [case.inputs], materialize_grads=True)
    assert not gradient.any()


@pytest.mark.parametrize("name", EACH)
def test_without_a_projection_only_the_cell_is_clipped(name: str) -> None:
    """TensorFlow's `LSTMCell` applies `proj_clip` only if there is a projection."""
    case = fit(name, make_case([6, 3], projected=False, clips=LstmClips(cell=None, projection=0.01)))
    assert_same(run(KERNELS[name], case), run(KERNELS[name], case._replace(clips=UNCLIPPED)))


@pytest.mark.parametrize("name", EACH)
def test_padding_is_not_read_and_an_empty_sentence_keeps_its_state(name: str) -> None:
    case = fit(name, make_case([2, 0, 4], steps=5))
    inputs = case.inputs.detach().clone()
    inputs[:, 0, 2:] = inputs[:, 1] = inputs[:, 2, 4:] = torch.nan
    found, wanted = (run(KERNELS[name], each) for each in (case._replace(inputs=inputs.requires_grad_()), case))
    assert_same(found, wanted)
    assert torch.equal(found.outputs, wanted.outputs) and torch.equal(found.state.cell, wanted.state.cell)
    assert not found.outputs[:, 0, 2:].any() and not found.outputs[:, 1].any()
    assert torch.equal(found.state.hidden[:, 1], case.state.hidden[:, 1])
    assert torch.equal(found.state.cell[:, 1], case.state.cell[:, 1])


@pytest.mark.parametrize("name", EACH)
def test_a_sentence_read_in_two_parts_equals_the_sentence_read_at_once(name: str) -> None:
    case = fit(name, make_case([6, 4], clips=LstmClips(0.8, 0.5)))
    whole, end = layer(KERNELS[name], *case)
    begun = case._replace(inputs=case.inputs[:, :, :2], lengths=case.lengths.clamp(max=2))
    first, middle = layer(KERNELS[name], *begun)
    rest = case._replace(inputs=case.inputs[:, :, 2:], lengths=case.lengths - 2, state=middle)
    second, last = layer(KERNELS[name], *rest)
    torch.testing.assert_close(torch.cat([first, second], dim=2), whole)
    torch.testing.assert_close(last, end)


@pytest.mark.parametrize("name", ["packed", FUSED])
@pytest.mark.parametrize(("projected", "clips"), [(True, LstmClips(1.5, 1.0)), (False, UNCLIPPED)])
def test_autocast_to_bfloat16_rounds_only_the_products(name: str, projected: bool, clips: LstmClips) -> None:
    """Outputs, states and gradients stay float32, and close to those of the reference without autocast.

    With this seed no rounding moves a value across its bound, where the gradient is cut off.
    """
    case = in_float32(make_case([12, 7, 9, 1], sizes=(16, 24, 12), clips=clips, projected=projected, seed=6))
    wanted = run(reference, case)
    with torch.autocast(DEVICE, torch.bfloat16):
        outputs, state = layer(KERNELS[name], *case)
    gradients = differentiate(outputs, state, case.leaves)
    found = [outputs, *state, *gradients.values()]
    assert not torch.equal(outputs, wanted.outputs)
    for value, right in zip(found, [wanted.outputs, *wanted.state, *wanted.gradients.values()], strict=True):
        assert value.dtype == torch.float32
        assert torch.cosine_similarity(value.flatten(), right.flatten(), dim=0) > 0.99
        assert (value - right).norm() < 0.03 * right.norm()


@pytest.mark.parametrize("name", ["packed", FUSED])
def test_second_derivatives_are_an_error(name: str) -> None:
    case = fit(name, make_case([3, 1]))

    def gradients(kernel: str) -> Any:
        outputs, _ = layer(KERNELS[kernel], *case)
        return torch.autograd.grad(outputs.square().sum(), case.inputs, create_graph=True)

    with pytest.raises(RuntimeError, match=r"'kernel'.*'reference'"):
        gradients(name)
    (gradient,) = gradients("reference")
    assert torch.autograd.grad(gradient.square().sum(), case.weights[1].recurrent)[0].any()
