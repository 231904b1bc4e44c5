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
    with torch.device("meta"), _NothingInitialized():
        yield


class _NothingInitialized(TorchFunctionMode):
    """Leaves out what draws numbers for weights that have none, and `normal_` imports the compiler for them."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_init = getattr(func, "__module__", None) == nn.init.__name__
        return kwargs["tensor"] if is_init else func(*args, **(kwargs or {}))
