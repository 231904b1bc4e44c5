"""8-bit weights: what rounding changes, and what it must not change."""

import copy
import io
import logging
import pickle
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from elmo_plugin import Elmo, batch_to_ids, load
from elmo_plugin.bilm import precision
from elmo_plugin.tensors import Int8Weight, has_int8, linear

pytestmark = pytest.mark.skipif(not has_int8(), reason="this processor has no products of int8")

SENTENCES = [
    ["The", "old", "captain", "walked", "slowly", "along", "the", "deck", "."],
    ["Rain", "!"],
    ["x" * 300],
    ["日本", "Ωmega"],
]
sizes = st.integers(1, 40)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """Return random numbers whose rows differ in size."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator) * torch.rand(shape[0], 1, generator=generator)


@given(outputs=sizes, inputs=sizes, seed=st.integers(0, 99))
def test_rounding_moves_a_number_by_at_most_half_a_step_and_is_idempotent(outputs: int, inputs: int, seed: int) -> None:
    weight = drawn(outputs, inputs, seed=seed)
    rounded = Int8Weight(weight).dequantized()
    step = weight.abs().amax(dim=1, keepdim=True) / 127  # (O, 1)
    assert ((rounded - weight).abs() <= 0.501 * step).all()
    assert torch.equal(Int8Weight(rounded).dequantized(), rounded)


@pytest.mark.parametrize(("multiply", "steps"), [(Int8Weight.product, 63), (Int8Weight.precise_product, 63 * 126)])
@given(rows=sizes, outputs=sizes, inputs=sizes, seed=st.integers(0, 99))
def test_a_product_multiplies_rounded_values_by_the_rounded_weight(
    multiply: Callable[..., Tensor], steps: int, rows: int, outputs: int, inputs: int, seed: int
) -> None:
    weight, values = Int8Weight(drawn(outputs, inputs, seed=seed)), drawn(rows, inputs, seed=seed + 1)
    rounded = weight.dequantized().double()
    step = values.abs().amax(dim=1, keepdim=True).double() / steps
    difference = multiply(weight, values) - values.double() @ rounded.t()
    assert (difference.abs() <= 0.5 * step * rounded.abs().sum(dim=1) + 1e-5).all()


@pytest.mark.parametrize("multiply", [Int8Weight.product, Int8Weight.precise_product])
@settings(max_examples=20)
@given(rows=sizes, seed=st.integers(0, 99))
def test_a_row_has_the_same_bits_alone_and_among_others(multiply: Callable[..., Tensor], rows: int, seed: int) -> None:
    weight, values = Int8Weight(drawn(33, 70)), drawn(rows, 70, seed=seed)
    together = multiply(weight, values)
    assert torch.equal(torch.cat([multiply(weight, row) for row in values.split(1)]), together)


@pytest.mark.parametrize("size", [0.0, 1e-42, 1e-35, 1e-20, 1e30])
def test_values_of_any_size(size: float) -> None:
    weight, values = drawn(5, 20), drawn(3, 20)
    found = Int8Weight(weight).precise_product(values * size)
    torch.testing.assert_close(
        found, values * size @ Int8Weight(weight).dequantized().t(), rtol=1e-3, atol=1e-3 * size + 1e-30
    )


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_not_hidden(wrong: float) -> None:
    weight, values = drawn(4, 8), drawn(2, 8)
    weight[1, 2] = values[1, 3] = wrong
    found = Int8Weight(weight).product(values).isfinite()
    assert found.tolist() == [[True, False, True, True], [False] * 4]


def test_writing_copying_and_saving_keep_the_rounded_numbers() -> None:
    layer = nn.Linear(6, 4)
    layer.weight = Int8Weight(torch.zeros(4, 6))  # type: ignore[assignment]
    rounded = Int8Weight(drawn(4, 6)).dequantized()
    layer.load_state_dict({"weight": drawn(4, 6), "bias": torch.zeros(4)})
    for same in (layer, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert isinstance(same.weight, Int8Weight) and isinstance(same.weight, nn.Parameter)
        assert torch.equal(same.weight.dequantized(), rounded)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=True)["weight"], rounded)
    with torch.no_grad():
        layer.weight.mul_(2)
    assert torch.equal(layer.weight.dequantized(), 2 * rounded)


def test_gradients_of_values_are_those_of_the_rounded_weight() -> None:
    weight, values = Int8Weight(drawn(4, 6)), drawn(3, 6).requires_grad_()
    linear(values, weight).sum().backward()
    torch.testing.assert_close(values.grad, weight.dequantized().sum(dim=0).expand(3, 6))


@pytest.mark.usefixtures("rounded_small_weights")
def test_every_layer_of_every_token_has_a_cosine_of_at_least_0_999() -> None:
    arrays = [load("english-tiny", precision=name).embed(SENTENCES) for name in ("float32", "int8")]
    for exact, rounded in zip(*arrays, strict=True):  # (L, T, D) each
        assert (exact != rounded).any()
        assert torch.cosine_similarity(torch.tensor(exact), torch.tensor(rounded), dim=-1).min() >= 0.999


def elmo_of(precision: str) -> Elmo:
    return Elmo(bilm="english-tiny", dropout=0.0, precision=precision).eval()


@pytest.mark.usefixtures("rounded_small_weights")
def test_moving_and_casting_keep_int8_only_in_float32() -> None:
    elmo, ids = elmo_of("int8"), batch_to_ids(SENTENCES)
    expected = elmo(ids).representations[0]
    assert elmo.bilm.precision_of_weights == "int8"
    assert torch.equal(elmo.to("cpu").float()(ids).representations[0], expected)
    assert elmo.bilm.precision_of_weights == "int8"
    torch.testing.assert_close(elmo.double()(ids).representations[0].float(), expected, rtol=0, atol=2e-2)
    assert elmo.bilm.precision_of_weights == "float64"


@pytest.mark.usefixtures("rounded_small_weights")
def test_a_state_dict_goes_from_each_precision_to_the_other() -> None:
    exact, rounded, ids = elmo_of("float32"), elmo_of("int8"), batch_to_ids(SENTENCES)
    expected = rounded(ids).representations[0]
    exact.load_state_dict(rounded.state_dict())
    torch.testing.assert_close(exact(ids).representations[0], expected, rtol=0, atol=2e-2)
    rounded.load_state_dict(exact.state_dict())
    assert torch.equal(rounded(ids).representations[0], expected)


def test_a_fallback_from_int8_is_logged_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(precision, "has_int8", lambda: False)
    precision.warn_of_fallback.cache_clear()
    elmo, ids = elmo_of("int8"), batch_to_ids(SENTENCES)
    assert torch.equal(elmo(ids).representations[0], elmo_of("float32")(ids).representations[0])
    elmo(ids)
    (message,) = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert "int8" in message and "float32" in message


def test_weights_up_to_a_size_stay_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = batch_to_ids(SENTENCES)
    exact, rounded = elmo_of("float32"), elmo_of("int8")
    assert rounded.bilm.precision_of_weights == "float32"
    assert torch.equal(rounded(ids).representations[0], exact(ids).representations[0])
    monkeypatch.setattr(precision, "LARGEST_UNROUNDED", 2**20)
    rounded.bilm.set_precision("int8")
    sizes = {weight.numel() for weight in rounded.bilm.parameters() if isinstance(weight, Int8Weight)}
    assert rounded.bilm.precision_of_weights == "int8"
    assert sizes == {2**19}  # the projections, of 2**17 numbers, stay
    expected = exact(ids).representations[0]
    torch.testing.assert_close(
        rounded(ids).representations[0], expected, rtol=0, atol=2e-2 * float(expected.abs().max())
    )
