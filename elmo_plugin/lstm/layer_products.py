"""The matrix products of one layer: differentiable ones, or the fastest ones, whose copies of weights are kept."""

from collections.abc import Sequence
from typing import Optional

import torch
from torch import Tensor
from torch.nn import functional

from elmo_plugin.lstm.types import LstmWeights, Product
from elmo_plugin.tensors import (
    ANY,
    SMALL,
    Kept,
    Prepared,
    Versions,
    Way,
    fastest_way,
    is_worth_copying,
    product_type,
)


class KeptProducts(Kept):
    """Prepares the products of one layer, and keeps those of frozen weights until one of the weights changes.

    What is prepared depends on no earlier batch: the products are kept by the ways that `fastest_way` chooses.
    """

    def __call__(self, layer: Sequence[LstmWeights], rows: int, times: int) -> dict[str, Prepared]:
        """Return the fastest products of a layer, without gradients, for `times` steps of at most `rows` sentences.

        `input` multiplies all tokens by W and adds b. `recurrent` is that of a step, and so is `projection`, if there
        is one.
        Frozen weights are worth a copy, but for large input weights, by which a text is multiplied only once.
        """
        parts = [part for weights in layer for part in weights if part is not None]
        is_frozen = not any(part.requires_grad or part.is_inference() for part in parts)
        prepared: dict[tuple[str, Way], Prepared] = {}
        if is_frozen:
            prepared = self.get(Versions(parts, product_type(parts[0])), dict)
        products = {}
        for name, most, number in (("input", ANY, 1), ("recurrent", rows, times), ("projection", rows, times)):
            weights = [getattr(each, name) for each in layer]
            if weights[0] is None:
                break  # there is no projection
            is_kept = is_frozen and (name != "input" or weights[0].numel() <= SMALL)
            way = fastest_way(weights[0], most, is_kept or is_worth_copying(weights[0], number))
            if (name, way) not in prepared:
                biases = [each.bias for each in layer] if name == "input" else (None, None)
                prepared[name, way] = Prepared(weights, way, biases, is_recurrent=name == "recurrent")
            products[name] = prepared[name, way]
        return products


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
