"""`torch.nn.functional.linear` and `torch.nn.Linear` by the fastest routine of this processor, with gradients."""

from typing import Any, Optional, TypeVar

import torch
from torch import Tensor, nn

from elmo_plugin.tensors.int8 import Int8Weight
from elmo_plugin.tensors.number_types import product_type
from elmo_plugin.tensors.outside_of_graphs import outside_of_graphs
from elmo_plugin.tensors.products import Way, fastest_way, mkl_is_fast, multiply

Module = TypeVar("Module", bound=nn.Module)


@outside_of_graphs  # inductor cannot compile oneDNN's product with a weight that is not a constant
def linear(values: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """Compute `torch.nn.functional.linear`, autocast included: values (N, I), weight (O, I), bias (O,) to (N, O)."""
    dtype = product_type(weight)
    if not torch.is_grad_enabled():
        weight = weight if isinstance(weight, Int8Weight) else weight.detach().to(dtype)
        return multiply(values.to(dtype), weight, None if bias is None else bias.to(dtype))
    if dtype == values.dtype == weight.dtype and _is_ours(values):
        return _Linear.apply(values, weight, bias)
    return nn.functional.linear(values, weight, bias)


def weight_gradient(d_outputs: Tensor, values: Tensor) -> Tensor:
    """Return the gradient (O, I) of a weight: dYᵀ X, from dY (N, O) and X (N, I)."""
    # oneDNN is slower with swapped operands if O > I.
    return multiply(values.t(), d_outputs.t()).t() if _is_ours(values) else d_outputs.t() @ values


def _is_ours(values: Tensor) -> bool:
    """Return whether we multiply these values faster than PyTorch, which does it by MKL in float32."""
    return values.dtype == torch.float32 and not mkl_is_fast() and fastest_way(values, len(values)) is not Way.TORCH


class Linear(nn.Linear):
    """A `torch.nn.Linear` for two-dimensional values."""

    def forward(self, input: Tensor) -> Tensor:
        """Map values (N, I) to (N, O)."""
        return linear(input, self.weight, self.bias)


def with_linear(module: Module) -> Module:
    """Make each `torch.nn.Linear` in a module a `Linear`, with the same parameters, and return the module."""
    for part in module.modules():
        if type(part) is nn.Linear:
            part.__class__ = Linear  # which differs in `forward` alone
    return module


class _Linear(torch.autograd.Function):
    """Y = X Wᵀ + b; dX = dY W, dW = dYᵀ X, db = the sum of dY over rows."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        """Map values (N, I) to (N, O) by weight (O, I) and bias (O,)."""
        ctx.save_for_backward(values, weight)
        return multiply(values, weight.detach(), bias)

    @staticmethod
    def backward(ctx: Any, d_output: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradients of `values`, `weight` and `bias`."""
        values, weight = ctx.saved_tensors
        needed = ctx.needs_input_grad
        if torch.is_grad_enabled():  # second derivatives: only torch's operators can be differentiated again
            return d_output @ weight, d_output.t() @ values, d_output.sum(dim=0) if needed[2] else None
        d_values = multiply(d_output, weight.detach().t()) if needed[0] else None
        d_weight = weight_gradient(d_output, values) if needed[1] else None
        return d_values, d_weight, d_output.sum(dim=0) if needed[2] else None
