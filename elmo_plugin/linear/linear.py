"""`torch.nn.Linear` with the fastest product of this processor, gradients included."""

from typing import Any, Optional, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_plugin.linear.int8 import Int8Weight
from elmo_plugin.linear.products import product, product_type, runs_faster, weight_gradient

Module = TypeVar("Module", bound=nn.Module)


@torch.compiler.disable(reason="inductor cannot compile oneDNN's product with a weight that is not a constant")
def linear(values: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """Compute `torch.nn.functional.linear`, autocast included: values (N, I), weight (O, I), bias (O,) to (N, O)."""
    if not torch.is_grad_enabled():
        dtype = product_type(weight)
        values, weight, bias = values.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
        if isinstance(weight, Int8Weight):
            return weight.precise_product(values, bias)
        return product(values, weight, bias)
    is_ours = not isinstance(weight, Int8Weight) and runs_faster(values)
    if product_type(values) == values.dtype == weight.dtype and len(values) and is_ours:
        output: Tensor = _Linear.apply(values, weight, bias)
        return output
    return functional.linear(values, weight, bias)


class Linear(nn.Linear):
    """A `torch.nn.Linear` for two-dimensional values."""

    def forward(self, input: Tensor) -> Tensor:
        """Map values (N, I) to (N, O)."""
        return linear(input, self.weight, self.bias)


def with_linear(module: Module) -> Module:
    """Replace each `torch.nn.Linear` in a module by a `Linear` with the same parameters, and return the module."""
    for name, child in module.named_children():
        if type(child) is nn.Linear:
            ours = Linear(child.in_features, child.out_features, child.bias is not None, device="meta")
            ours.weight, ours.bias = child.weight, child.bias
            setattr(module, name, ours)
        else:
            with_linear(child)
    return module


class _Linear(torch.autograd.Function):
    """Y = X Wᵀ + b; dX = dY W, dW = dYᵀ X, db = the sum of dY over rows."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        """Map values (N, I) to (N, O) by weight (O, I) and bias (O,)."""
        ctx.save_for_backward(values, weight)
        return product(values, weight, bias)

    @staticmethod
    def backward(ctx: Any, d_output: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradients of `values`, `weight` and `bias`."""
        values, weight = ctx.saved_tensors
        needed = ctx.needs_input_grad
        if torch.is_grad_enabled():  # second derivatives: only torch's operators can be differentiated again
            return d_output @ weight, d_output.t() @ values, d_output.sum(dim=0) if needed[2] else None
        d_values = product(d_output, weight.t()) if needed[0] else None
        d_weight = weight_gradient(d_output, values) if needed[1] else None
        return d_values, d_weight, d_output.sum(dim=0) if needed[2] else None
