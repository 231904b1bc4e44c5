"""CUDA graphs without a GPU: graphs that remember operators and run them again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class OperatorGraph:
    """As `torch.cuda.CUDAGraph`: replays on the tensors that it was captured with, and nothing else."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def pool(self) -> int:
        """Whose memory a second graph may share."""
        return id(self)

    def replay(self) -> None:
        for call in self.calls:
            call()


class Recorder(TorchDispatchMode):
    """Adds each operator that runs to a graph."""

    def __init__(self, graph: OperatorGraph) -> None:
        super().__init__()
        self.graph = graph

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outputs = operator(*args, **(kwargs or {}))

        def again() -> None:
            found = operator(*args, **(kwargs or {}))
            for output, value in zip(tree_leaves(outputs), tree_leaves(found), strict=True):
                if output.data_ptr() != value.data_ptr():  # a view of what was captured needs no writing
                    output.copy_(value)

        self.graph.calls.append(again)
        return outputs


@contextmanager
def record(graph: OperatorGraph, pool: Any = None) -> Iterator[None]:
    """As `torch.cuda.graph`."""
    with Recorder(graph):
        yield
