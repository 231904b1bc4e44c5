"""TENSORS: types of numbers, products with a weight, 8-bit weights, and whether a tensor has changed.

What the packages above share and what knows nothing of ELMo. It imports only torch.
"""

from elmo_plugin.tensors.int8 import Int8Weight, has_int8
from elmo_plugin.tensors.number_types import NUMBER_TYPES, has_native_bfloat16, product_type
from elmo_plugin.tensors.outside_of_graphs import outside_of_graphs
from elmo_plugin.tensors.products import (
    ANY,
    FEW,
    SMALL,
    Linear,
    Prepared,
    Way,
    fastest_way,
    linear,
    weight_gradient,
)
from elmo_plugin.tensors.versions import Kept, Versions

__all__ = [
    "ANY",
    "FEW",
    "NUMBER_TYPES",
    "SMALL",
    "Int8Weight",
    "Kept",
    "Linear",
    "Prepared",
    "Versions",
    "Way",
    "fastest_way",
    "has_int8",
    "has_native_bfloat16",
    "linear",
    "outside_of_graphs",
    "product_type",
    "weight_gradient",
]
