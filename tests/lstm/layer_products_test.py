"""The products of a layer: copies of frozen weights are kept until one changes; no batch decides for others."""

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import elmo_plugin
from elmo_plugin import Elmo, batch_to_ids
from elmo_plugin.lstm import KeptProducts, LstmWeights, packed
from elmo_plugin.lstm import layer_products as module
from elmo_plugin.lstm.layer_products import fastest_product
from elmo_plugin.lstm.reference import reference
from elmo_plugin.tensors import Prepared, products
from tests.kernel_oracles import in_float32, layer, make_case

ROWS = pytest.mark.parametrize("rows", [1, 2, 33])
SENTENCES = [["The", "old", "captain", "walked", "slowly"], ["Rain", "!"], ["Two", "words", "more"]] * 3


def make_layer(cells: int = 64, width: int = 16) -> list[LstmWeights]:
    """Return the frozen weights of both directions of a layer."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((4 * cells, width), (4 * cells, width), (4 * cells,), (width, cells))
    return [LstmWeights(*(torch.randn(shape, generator=generator) * 0.1 for shape in shapes)) for _ in range(2)]


def copies(found: dict[str, Prepared]) -> list[int]:
    return [id(product) for product in found.values()]


@pytest.mark.parametrize("lengths", [[1], [40], [40, 33, 7] * 5])
def test_a_large_layer_equals_the_reference(lengths: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "SMALL", 0)
    monkeypatch.setattr(products, "TINY", 0)
    monkeypatch.setattr(module, "SMALL", 0)
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
def test_copies_of_frozen_weights_are_kept_until_one_changes(rows: int, change: Callable[[Tensor], None]) -> None:
    weights, kept = make_layer(), KeptProducts()
    first = copies(kept(weights, rows, 9))
    assert copies(kept(weights, rows, 9)) == first
    for weight in weights[1]:
        assert weight is not None
        before = kept(weights, rows, 9)
        change(weight)
        assert not {*copies(kept(weights, rows, 9))} & {*copies(before)}
    values = torch.randn(2, rows, 16)
    wanted = torch.stack([x @ w.recurrent.t() for x, w in zip(values, weights, strict=True)])
    torch.testing.assert_close(kept(weights, rows, 9)["recurrent"](values), wanted)
    for other in (copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))):
        assert other._kept[1] is None


def test_trained_weights_are_not_kept() -> None:
    weights, kept = make_layer(), KeptProducts()
    weights[1].bias.requires_grad_()
    first = kept(weights, 3, 9)
    assert not {*copies(kept(weights, 3, 9))} & {*copies(first)}


@pytest.mark.parametrize("times", [1, 99])
def test_the_products_of_training_equal_torchs(times: int) -> None:
    weights = [torch.randn(40, 24, requires_grad=True) for _ in range(2)]
    for rows in (1, 5):
        values = torch.randn(2, rows, 24)
        found = fastest_product(weights, [rows] * times)(values, out=torch.empty(2, rows, 40))
        torch.testing.assert_close(found, values @ torch.stack(weights).detach().mT, rtol=0, atol=1e-5)


@pytest.mark.parametrize("rule", products.ROWS_BY_MKL)
@pytest.mark.parametrize("first", [[[]], [[], []], [["word"]], SENTENCES[:1], SENTENCES * 5])
def test_the_bits_do_not_depend_on_what_was_embedded_before(
    first: list[list[str]], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty batch was remembered as the kernel's choice for ever, and was slower from then on."""
    monkeypatch.setattr(products, "rule", lambda: products.ROWS_BY_MKL[rule])
    monkeypatch.setattr(products, "TINY", 0)
    fresh, used = (elmo_plugin.load("english-tiny") for _ in range(2))
    wanted = fresh.embed(SENTENCES)
    used.embed(first)
    for found, expected in zip(used.embed(SENTENCES), wanted, strict=True):
        assert (found == expected).all()


def test_an_empty_batch_is_multiplied_like_a_row_and_changes_no_choice() -> None:
    elmo, ids = Elmo(bilm="english-tiny", dropout=0.0).eval(), batch_to_ids(SENTENCES)
    elmo(batch_to_ids([[]]))
    lstm = elmo.bilm.lstm
    before = [{*kept._kept[1]} for kept in lstm.products]  # type: ignore[operator,union-attr]
    elmo(ids)
    one = Elmo(bilm="english-tiny", dropout=0.0).eval()
    one(batch_to_ids(SENTENCES[:1]))
    assert before == [{*kept._kept[1]} for kept in one.bilm.lstm.products]  # type: ignore[operator,union-attr]
