"""Keep a function out of the graphs of `torch.compile`, without importing PyTorch's compiler, which takes seconds."""

import sys
from collections.abc import Callable
from functools import cache, partial, wraps
from typing import Any, TypeVar, cast

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


def outside_of_graphs(function: Function) -> Function:
    """Do what `torch.compiler.disable` does, once the compiler is imported. Before, nothing can be compiled."""
    outside = cache(partial(torch.compiler.disable, function))

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        run = outside() if "torch._dynamo" in sys.modules else function
        return run(*args, **kwargs)

    return cast(Function, call)
