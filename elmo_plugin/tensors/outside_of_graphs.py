"""Keep a function out of the graphs of `torch.compile`, without importing PyTorch's compiler, which takes seconds."""

import sys
from collections.abc import Callable
from functools import cache, partial, wraps
from typing import ParamSpec, TypeVar

import torch

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def outside_of_graphs(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Do what `torch.compiler.disable` does, once the compiler is imported. Before, nothing can be compiled."""
    outside = cache(partial(torch.compiler.disable, function))

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        outcome: Returned = outside()(*args, **kwargs)
        return outcome

    return call
