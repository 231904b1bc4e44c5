"""The matrix products of one layer: differentiable ones, or the fastest ones, whose copies of weights are kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Optional

import torch
from torch import Tensor, nn

from elmo_plugin.lstm.types import LstmWeights, Product
from elmo_plugin.tensors import (
    ANY,
    FEW,
    SMALL,
    Kept,
    Prepared,
    Versions,
    fastest_way,
    product_type,
)


class KeptProducts(Kept):
    """Prepares the products of one layer, and keeps those of frozen weights until one of the weights changes.

    What is prepared depends on no earlier batch. It keeps the products by the largest number of rows, and the copies
    that they share by their ways.
    """

    def __call__(self, layer: Sequence[LstmWeights], rows: int, times: int) -> dict[str, Prepared]:
        """Return the fastest products of a layer, without gradients, for `times` steps of at most `rows` sentences.

        `input` multiplies all tokens by W and adds b. `recurrent` is that of a step, and so is `projection`, if there
        is one. Frozen weights are worth a copy, but for large input weights, by which a text is multiplied only once.
        """
        versions = Versions(chain(*layer), product_type(layer[0].input))
        kept: dict[Any, Any] = self.get(versions, dict) if versions.is_frozen else {}
        most = 1 if rows <= 1 else FEW if rows <= FEW else ANY
        if most in kept:
            return kept[most]
        products: dict[str, Prepared] = {}
        inputs, recurrents, biases, projections = zip(*layer, strict=True)
        for name, weights, limit, number in (
            ("input", inputs, ANY, 1),
            ("recurrent", recurrents, most, times),
            ("projection", projections, most, times),
        ):
            if weights[0] is not None:
                is_kept = versions.is_frozen and (name != "input" or weights[0].numel() <= SMALL)
                way = fastest_way(weights[0], limit, is_kept, number)
                if (name, way) not in kept:
                    added = biases if name == "input" else (None, None)
                    kept[name, way] = Prepared(weights, way, added, is_recurrent=name == "recurrent")
                products[name] = kept[name, way]
        kept[most] = products  # once they are complete: other threads look here
        return products


@dataclass
class DifferentiableProduct:
    """A `Product` with gradients, by torch's own operator."""

    weights: Sequence[Tensor]

    def __call__(self, values: Tensor, start: Optional[Tensor] = None, out: Optional[Tensor] = None) -> Tensor:
        """Return start + x Wᵀ; see `Product`."""
        pairs = zip(values, self.weights, strict=True)
        products = torch.stack([nn.functional.linear(each.to(weight.dtype), weight) for each, weight in pairs])
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


def fastest_product(weights: Sequence[Tensor], sizes: list[int]) -> Prepared:
    """Return the fastest product, without gradients, for steps of so many sentences."""
    return Prepared(weights, fastest_way(weights[0], max(sizes, default=0), times=len(sizes)))
