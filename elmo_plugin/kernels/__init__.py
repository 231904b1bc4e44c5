"""PRODUCTS: the fastest matrix product at hand, and `Linear` on top of it. Torch only."""

from elmo_plugin.kernels.linear import Linear, linear, with_linear

__all__ = ["Linear", "linear", "with_linear"]
