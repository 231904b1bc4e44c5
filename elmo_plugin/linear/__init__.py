"""PRODUCTS: the fastest matrix product of this processor, and `Linear` on top of it. Imports only torch."""

from elmo_plugin.linear.int8 import Int8Weight, has_int8
from elmo_plugin.linear.linear import Linear, linear, with_linear
from elmo_plugin.linear.number_types import NUMBER_TYPES, number_type
from elmo_plugin.linear.products import (
    Version,
    has_native_bfloat16,
    pack,
    product,
    product_type,
    product_with,
    weight_gradient,
)

__all__ = [
    "NUMBER_TYPES",
    "Int8Weight",
    "Linear",
    "Version",
    "has_int8",
    "has_native_bfloat16",
    "linear",
    "number_type",
    "pack",
    "product",
    "product_type",
    "product_with",
    "weight_gradient",
    "with_linear",
]
