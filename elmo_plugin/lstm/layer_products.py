"""The matrix products of one layer: differentiable ones, or the fastest ones, whose copies of weights are kept."""

from collections.abc import Sequence
from typing import NamedTuple, Optional

import torch
from torch import Tensor
from torch.nn import functional

from elmo_plugin.lstm.types import LstmWeights, Product
from elmo_plugin.tensors import (
    ANY,
    FEW,
    SMALL,
    Kept,
    Prepared,
    Versions,
    Way,
    fastest_way,
    is_worth_copying,
    product_type,
)


class LayerProducts(NamedTuple):
    """The products of one layer in each direction: of all its tokens with W and b, and of a time step with R and P."""

    input: Prepared
    recurrent: Product
    projection: Optional[Product]


class KeptProducts(Kept):
    """Prepares the products of one layer, and keeps copies of frozen weights until one of the weights changes.

    What is prepared depends on no earlier batch. It keeps the products by the largest number of rows, and the copies
    that they share.
    """

    def __call__(self, layer: Sequence[LstmWeights], rows: int, times: int) -> LayerProducts:
        """Return the fastest products of a layer, without gradients, for `times` steps of at most `rows` sentences."""
        weights, is_frozen = [], True
        for each in layer:
            for weight in each:
                if weight is not None:
                    weights.append(weight)
                    is_frozen = is_frozen and not (weight.requires_grad or weight.is_inference())
        versions = Versions(weights, product_type(weights[0])) if is_frozen else None
        if versions is None or versions != self._kept[0]:
            self._kept = versions, ({}, {})
        by_rows, copies = self._kept[1]
        if not is_frozen:
            return _prepare(layer, rows, times, is_frozen, copies)
        most = 1 if rows <= 1 else FEW if rows <= FEW else ANY
        if most not in by_rows:
            by_rows[most] = _prepare(layer, most, 1, is_frozen, copies)
        products: LayerProducts = by_rows[most]
        projection = products.projection
        if projection is not None and projection.weights[0].numel() > SMALL:
            # The copies of a large projection are made for this call alone.
            return products._replace(projection=fastest_product(projection.weights, rows, times))
        return products


def _prepare(
    layer: Sequence[LstmWeights], rows: int, times: int, is_frozen: bool, prepared: dict[tuple[str, Way], Prepared]
) -> LayerProducts:
    """Prepare the products of a layer, and add those of frozen weights to `prepared` if they are not there yet.

    Frozen recurrent weights are always worth a copy, others if they are small.
    """
    products: list[Optional[Prepared]] = []
    for name, most, number in (("input", ANY, 1), ("recurrent", rows, times), ("projection", rows, times)):
        weights = [getattr(each, name) for each in layer]
        if weights[0] is None:
            products.append(None)
            continue
        is_kept = is_frozen and (name == "recurrent" or weights[0].numel() <= SMALL)
        way = fastest_way(weights[0], most, is_kept or is_worth_copying(weights[0], number))
        if (name, way) not in prepared:
            biases = [each.bias for each in layer] if name == "input" else (None, None)
            prepared[name, way] = Prepared(weights, way, biases, is_recurrent=name == "recurrent")
        products.append(prepared[name, way])
    return LayerProducts(*products)  # type: ignore[arg-type]


class DifferentiableProduct:
    """A `Product` with gradients, by torch's own operator."""

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self.weights = weights

    def __call__(self, values: Tensor, start: Optional[Tensor] = None, out: Optional[Tensor] = None) -> Tensor:
        """Return start + x Wᵀ; see `Product`."""
        pairs = zip(values, self.weights, strict=True)
        products = torch.stack([functional.linear(each.to(weight.dtype), weight) for each, weight in pairs])
        result = products if start is None else start + products
        return result if out is None else out.copy_(result)

    def only(self, direction: int) -> "DifferentiableProduct":
        """Return the product of one direction."""
        return DifferentiableProduct([self.weights[direction]])


def differentiable(layer: Sequence[LstmWeights]) -> tuple[Product, Optional[Product]]:
    """Return the products of a time step with gradients: those with R and with P."""
    projections = [each.projection for each in layer if each.projection is not None]
    recurrent = DifferentiableProduct([each.recurrent for each in layer])
    return recurrent, DifferentiableProduct(projections) if projections else None


def fastest_product(weights: Sequence[Tensor], rows: int, times: int) -> Prepared:
    """Return the fastest product, without gradients, for `times` steps of at most `rows` sentences."""
    return Prepared(weights, fastest_way(weights[0], rows, is_worth_copying(weights[0], times)))
