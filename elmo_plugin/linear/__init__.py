"""PRODUCTS: the fastest matrix product at hand, and `Linear` on top of it. Torch only."""

from elmo_plugin.linear.linear import Linear, linear, with_linear
from elmo_plugin.linear.products import Version, has_native_bfloat16, pack, product, product_type, weight_gradient

__all__ = [
    "Linear",
    "Version",
    "has_native_bfloat16",
    "linear",
    "pack",
    "product",
    "product_type",
    "weight_gradient",
    "with_linear",
]
