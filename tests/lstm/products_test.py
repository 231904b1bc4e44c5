"""The products of a layer without gradients: each layout equals torch's product, and copies of weights are kept."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_plugin.lstm import LstmWeights, Versions, fastest_product, layer_products, packed, products
from elmo_plugin.lstm.reference import reference
from tests.kernel_oracles import in_float32, layer, make_case

ROWS = pytest.mark.parametrize("rows", [1, 2, 33])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])


def make_layer(cells: int = 64, width: int = 16) -> list[LstmWeights]:
    """Return the frozen weights of both directions of a layer."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((4 * cells, width), (4 * cells, width), (4 * cells,), (width, cells))
    return [LstmWeights(*(torch.randn(shape, generator=generator) * 0.1 for shape in shapes)) for _ in range(2)]


def cast(layer: list[LstmWeights], dtype: torch.dtype) -> list[LstmWeights]:
    return [LstmWeights(*(weight.to(dtype) for weight in weights)) for weights in layer]


@DTYPES
@ROWS
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("onednn", [False, True])
def test_each_product_equals_torchs(
    dtype: torch.dtype, rows: int, large: bool, onednn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(products, "SMALL", 0)
    if not onednn:
        monkeypatch.setattr(products, "_has_onednn", lambda dtype: False)
    weights = cast(make_layer(), dtype)
    found = layer_products(weights, rows, 9)
    tolerance = 0.1 if dtype == torch.bfloat16 else 1e-5
    for number, product in ((1, found.recurrent), (3, found.projection)):
        assert product is not None
        values = torch.randn(2, rows, weights[0][number].size(1)).to(dtype)
        wanted = torch.stack([functional.linear(x, w[number]) for x, w in zip(values, weights, strict=True)])
        start, out = torch.randn_like(wanted), torch.empty_like(wanted)
        torch.testing.assert_close(product(values), wanted, rtol=0, atol=tolerance)
        assert product(values, start, out) is out
        torch.testing.assert_close(out, start + wanted, rtol=0, atol=tolerance)
        torch.testing.assert_close(product(values, out=out), wanted, rtol=0, atol=tolerance)
    for multiply, each in zip(found.input, weights, strict=True):
        tokens = torch.randn(7, 16).to(dtype)
        torch.testing.assert_close(
            multiply(tokens), functional.linear(tokens, each.input, each.bias), rtol=0, atol=tolerance
        )


@pytest.mark.parametrize("is_frozen", [True, False])
@torch.no_grad()
def test_the_number_of_threads_changes_no_bit_of_few_rows(is_frozen: bool) -> None:
    """MKL divides the rows among threads, and multiplies those that are left over by another routine."""
    shapes = ((256, 64), (256, 64), (256,), (64, 128))
    weights = [LstmWeights(*(torch.randn(shape, requires_grad=not is_frozen) for shape in shapes)) for _ in range(2)]
    found = layer_products(weights, 32, 9)
    before = torch.get_num_threads()
    for product, width in ((found.recurrent, 64), (found.projection, 128)):
        assert product is not None
        for rows in range(1, 33):
            values = torch.randn(2, 40, width)[:, :rows]
            start = torch.randn(2, 40, len(product.weights[0]))[:, :rows]
            results = []
            for threads in (1, 2):
                torch.set_num_threads(threads)
                results.append(product(values, start, torch.empty_like(start)))
            torch.set_num_threads(before)
            assert torch.equal(*results), rows


def test_a_row_is_not_rounded_for_small_weights_in_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_has_onednn", lambda dtype: True)  # its products are not used
    weights = [torch.randn(40, 24).bfloat16() for _ in range(2)]
    values, start, out = torch.randn(2, 1, 24), torch.randn(2, 1, 40).bfloat16(), torch.empty(2, 1, 40)
    wanted = start.double() + values.double() @ torch.stack(weights).double().mT
    fastest_product(weights, 1, 9)(values, start, out)
    torch.testing.assert_close(out.double(), wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("lengths", [[1], [40], [40, 33, 7] * 5])
def test_a_large_layer_equals_the_reference(lengths: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "SMALL", 0)
    case = in_float32(make_case(lengths, sizes=(32, 128, 32)))
    case = case._replace(weights=[LstmWeights(*(0.1 * part.detach() for part in each)) for each in case.weights])
    with torch.no_grad():
        torch.testing.assert_close(layer(packed, *case), layer(reference, *case), rtol=0, atol=1e-5)


def write(weight: Tensor) -> None:
    weight.mul_(2)


def replace(weight: Tensor) -> None:
    weight.data = weight.data * 2


@ROWS
@pytest.mark.parametrize("change", [write, replace])
def test_copies_of_frozen_weights_are_kept_until_one_changes_or_is_deleted(
    rows: int, change: Callable[[Tensor], None]
) -> None:
    weights, before = make_layer(), len(products._kept)
    first = layer_products(weights, rows, 9)
    assert layer_products(weights, rows, 9) is first
    assert layer_products(weights, 1 if rows > 1 else 9, 9) is not first
    for weight in weights[1]:
        changed = layer_products(weights, rows, 9)
        change(weight)
        assert layer_products(weights, rows, 9) is not changed
    values = torch.randn(2, rows, 16)
    wanted = torch.stack([x @ w.recurrent.t() for x, w in zip(values, weights, strict=True)])
    torch.testing.assert_close(layer_products(weights, rows, 9).recurrent(values), wanted)
    del weights, weight
    assert len(products._kept) == before


def test_batches_of_all_sizes_share_prepacked_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "SMALL", 0)
    monkeypatch.setattr(products, "_has_onednn", lambda dtype: True)
    made: list[Tensor] = []
    monkeypatch.setattr(products, "_prepack", lambda weight: made.append(weight) or weight)
    weights = cast(make_layer(), torch.bfloat16)
    for rows in (1, 9, 99):
        layer_products(weights, rows, 1)
    assert len(made) == 2  # the recurrent weight of each direction


def test_trained_weights_are_not_kept() -> None:
    weights, before = make_layer(), len(products._kept)
    weights[1].bias.requires_grad_()
    assert layer_products(weights, 3, 9) is not layer_products(weights, 3, 9)
    assert len(products._kept) == before


@pytest.mark.parametrize("times", [1, 99])
def test_the_products_of_training_equal_torchs(times: int) -> None:
    weights = [torch.randn(40, 24, requires_grad=True) for _ in range(2)]
    for rows in (1, 5):
        values = torch.randn(2, rows, 24)
        found = fastest_product(weights, rows, times)(values, out=torch.empty(2, rows, 40))
        torch.testing.assert_close(found, values @ torch.stack(weights).detach().mT, rtol=0, atol=1e-5)


def test_a_weight_at_the_address_of_a_deleted_one_has_another_version() -> None:
    weight = nn.Parameter(torch.zeros(64, 64))
    for _ in range(20):
        version = Versions([weight])
        weight.data = torch.zeros(64, 64)
        assert Versions([weight]) != version
    assert Versions([weight], 1) == Versions([weight], 1) != Versions([weight], 2)
