"""The recurrence without gradients, and its matrix products."""

import pytest
import torch
from hypothesis import example, given, settings
from torch import Tensor
from torch.utils._pytree import tree_map_only

from elmo_plugin.lstm import LstmClips, packed, products, reference
from elmo_plugin.lstm.products import Version, pack, product
from tests.kernel_oracles import Case, cases, in_float32, layer, make_case

EACH_LENGTH = pytest.mark.parametrize("lengths", [[1], [40], [40, 33, 7] * 5])


@settings(max_examples=100)
@given(case=cases)
@example(case=make_case([1, 0, 3], steps=9))
@example(case=make_case([]))
@example(case=make_case([3, 2, 5], sizes=(1, 1, 1), clips=LstmClips(0.3, 0.2)))
def test_packed_without_gradients_equals_the_reference(case: Case) -> None:
    with torch.no_grad():
        torch.testing.assert_close(layer(packed, *case), layer(reference, *case), rtol=1e-10, atol=1e-10)


def larger(lengths: list[int]) -> Case:
    """Return a larger float32 layer whose weights are so small that rounding errors do not grow from step to step."""
    case = in_float32(make_case(lengths, sizes=(32, 96, 32), clips=LstmClips(3.0, 3.0)))
    return case._replace(weights=tree_map_only(Tensor, lambda part: 0.3 * part, case.weights))


@pytest.mark.parametrize("onednn", [True, False])
@EACH_LENGTH
def test_float32_equals_the_reference_with_and_without_onednn(
    onednn: bool, lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not onednn:
        monkeypatch.setattr(products, "_has_onednn", lambda dtype: False)
    case = larger(lengths)
    with torch.no_grad():
        torch.testing.assert_close(layer(packed, *case), layer(reference, *case), rtol=0, atol=1e-5)


@EACH_LENGTH
def test_bfloat16_weights_round_only_the_products(lengths: list[int]) -> None:
    case = larger(lengths)
    halves = tree_map_only(Tensor, Tensor.bfloat16, case.weights)
    exact = tree_map_only(Tensor, Tensor.float, halves)
    with torch.no_grad():
        outputs, state = layer(packed, *case._replace(weights=halves))
        wanted, _ = layer(reference, *case._replace(weights=exact))
    assert outputs.dtype == state.cell.dtype == torch.float32
    present = wanted.abs().sum(dim=-1) > 0
    assert torch.cosine_similarity(outputs, wanted, dim=-1)[present].min() > 0.9999


def test_a_bfloat16_state_becomes_float32() -> None:
    case = larger([3, 0, 2])
    weights, state = tree_map_only(Tensor, Tensor.bfloat16, (case.weights, case.state))
    with torch.no_grad():
        outputs, final = layer(packed, case.inputs.bfloat16(), case.lengths, weights, state, case.clips)
    assert {outputs.dtype, final.hidden.dtype, final.cell.dtype} == {torch.float32}
    torch.testing.assert_close(final.cell[1], state.cell[1].float(), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("rows", [1, 2, 33])
@pytest.mark.parametrize("times", [1, 8, 100])
def test_a_product_equals_torchs_prepacked_or_not(dtype: torch.dtype, rows: int, times: int) -> None:
    generator = torch.Generator().manual_seed(0)
    values, weight, bias = (torch.randn(*shape, generator=generator) for shape in ((rows, 24), (40, 24), (40,)))
    wanted = torch.nn.functional.linear(values, weight, bias)
    packed = pack(weight.to(dtype), rows, times)
    found = product(values.to(dtype), packed, bias.to(dtype))
    tolerance = 0.1 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(found, wanted.to(dtype), rtol=0, atol=tolerance)


def test_a_frozen_weight_is_prepacked_once_until_it_changes_or_is_deleted() -> None:
    weight, values = torch.randn(40, 24), torch.randn(3, 24)
    packed = pack(weight, 3, 1, keep=True)
    assert pack(weight, 8, 99, keep=True) is packed is not weight
    weight.mul_(2)
    torch.testing.assert_close(product(values, pack(weight, 3, 1, keep=True)), values @ weight.t())
    weight.data = torch.randn(40, 24)
    torch.testing.assert_close(product(values, pack(weight, 3, 1, keep=True)), values @ weight.t())
    before = len(products._packed)
    del weight
    assert len(products._packed) == before - 1


@pytest.mark.parametrize(("trains", "keep"), [(True, True), (False, False)])
def test_other_weights_are_prepacked_only_for_many_products_and_not_kept(trains: bool, keep: bool) -> None:
    weight, before = torch.randn(40, 24, requires_grad=trains), len(products._packed)
    assert pack(weight, 3, 1, keep) is weight
    assert pack(weight, 3, 999, keep) is not pack(weight, 3, 999, keep)
    assert len(products._packed) == before


def test_a_build_without_onednns_operators_uses_torchs_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops, "mkldnn", object())
    products._has_onednn.cache_clear()
    try:
        values, weight = torch.randn(3, 4), torch.randn(5, 4)
        assert pack(weight, 3, 100) is weight
        torch.testing.assert_close(product(values, weight), values @ weight.t(), rtol=0, atol=0)
    finally:
        products._has_onednn.cache_clear()


def test_a_weight_at_the_address_of_a_deleted_one_has_another_version() -> None:
    weight = torch.nn.Parameter(torch.zeros(64, 64))
    for _ in range(20):
        version = Version(weight)
        weight.data = torch.zeros(64, 64)
        assert Version(weight) != version
    assert Version(weight) == Version(weight)
