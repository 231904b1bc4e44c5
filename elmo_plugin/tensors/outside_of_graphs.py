"""Keep a function out of the graphs of `torch.compile`, without importing PyTorch's compiler, which takes seconds."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Optional, ParamSpec, TypeVar

import torch

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def outside_of_graphs(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Do what `torch.compiler.disable` does, once the compiler is imported. Before, nothing can be compiled."""

    outside: Optional[Callable[Arguments, Returned]] = None

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        nonlocal outside
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        outside = outside or torch.compiler.disable(function)
        return outside(*args, **kwargs)

    return call
