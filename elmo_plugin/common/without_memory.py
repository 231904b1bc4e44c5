"""Modules without memory for their weights: their names and shapes are compared with a checkpoint before there is any.

With such weights, PyTorch imports its compiler and SymPy for some simple functions, which takes longer than all else
that loading a small biLM does.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode


@contextmanager
def without_memory() -> Iterator[None]:
    """Make modules on the device `meta`, which keeps shapes and types alone."""
    with torch.device("meta"), _NothingNormal():
        yield


def with_memory(module: nn.Module) -> None:
    """Give the weights of a module that was made `without_memory` memory on the CPU, with any numbers."""
    module._apply(lambda weight: torch.empty(weight.shape, dtype=weight.dtype))  # `to_empty` imports SymPy


class _NothingNormal(TorchFunctionMode):
    """Leaves out `nn.init.normal_`, which imports the compiler for weights that have no numbers."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return kwargs["tensor"] if func is nn.init.normal_ else func(*args, **(kwargs or {}))
