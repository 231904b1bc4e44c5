"""`linear` compared with torch's own: outputs, gradients, types."""

from collections.abc import Callable
from typing import Optional

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from elmo_plugin.tensors import linear, weight_gradient

SIZES = [(7, 5, 3), (1, 4, 6), (70, 3, 260), (0, 4, 2)]
WANT = [(True, True, True), (True, False, False), (False, True, False), (False, True, True)]


def inputs(
    size: tuple[int, int, int], want: tuple[bool, bool, bool] = (True, True, True), dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows (N, I), a weight (O, I) and a bias (O,)."""
    n, width, out = size
    generator = torch.Generator().manual_seed(1)
    tensors = [
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
        for shape in ((n, width), (out, width), (out,))
    ]
    rows, weight, bias = (tensor.requires_grad_(wanted) for tensor, wanted in zip(tensors, want, strict=True))
    return rows, weight, bias


def gradients(output: Tensor, tensors: tuple[Optional[Tensor], ...]) -> list[Tensor]:
    """Return the gradients of a sum in which each output has its own weight."""
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    wanted = [tensor for tensor in tensors if tensor is not None and tensor.requires_grad]
    return list(torch.autograd.grad((weights * output).sum(), wanted))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("want", WANT)
def test_outputs_and_gradients_equal_torchs(size: tuple[int, int, int], want: tuple[bool, bool, bool]) -> None:
    rows, weight, bias = inputs(size, want)
    wanted = functional.linear(rows, weight, bias)
    found = linear(rows, weight, bias)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(
        gradients(found, (rows, weight, bias)), gradients(wanted, (rows, weight, bias)), rtol=1e-5, atol=1e-4
    )


@pytest.mark.parametrize(
    "cut", [lambda rows: rows.t().contiguous().t(), lambda rows: rows[::2], lambda rows: rows[:, 1:]]
)
def test_rows_need_not_be_contiguous(cut: Callable[[Tensor], Tensor]) -> None:
    rows, weight, bias = inputs((6, 4, 4))
    view = cut(rows.detach())
    weight = weight.detach()[:, : view.size(1)].requires_grad_()
    torch.testing.assert_close(
        gradients(linear(view, weight, bias), (weight, bias)),
        gradients(functional.linear(view, weight, bias), (weight, bias)),
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_use_torchs_product(dtype: torch.dtype) -> None:
    rows, weight, bias = inputs((5, 4, 3), dtype=dtype)
    assert torch.equal(linear(rows, weight, bias), functional.linear(rows, weight, bias))
    assert torch.equal(weight_gradient(rows, rows), rows.t() @ rows)


def test_autocast_decides_the_type() -> None:
    rows, weight, bias = inputs((5, 4, 3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, wanted = linear(rows, weight, bias), functional.linear(rows, weight, bias)
        with torch.no_grad():
            assert linear(rows, weight, bias).dtype == torch.bfloat16
    assert found.dtype == wanted.dtype == torch.bfloat16
    assert torch.equal(found, wanted)
    assert all(gradient.dtype == torch.float32 for gradient in gradients(found, (rows, weight, bias)))


def test_second_derivatives_equal_torchs() -> None:
    # Whole numbers, which float32 adds and multiplies exactly in any order.
    tensors = tuple(tensor.detach().mul(2).round().requires_grad_() for tensor in inputs((7, 5, 3)))
    found = []
    for multiply in (linear, functional.linear):
        first = torch.autograd.grad(multiply(*tensors).square().sum(), tensors, create_graph=True)
        found.append(torch.autograd.grad(sum(each.square().sum() for each in first), tensors))  # type: ignore[arg-type]
    for ours, theirs in zip(*found, strict=True):
        assert torch.equal(ours, theirs) and ours.any()
