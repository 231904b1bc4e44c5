"""THE LSTMP RECURRENCE: an LSTM with a projected output and clips, as functions of one signature. Torch only.

Sak et al. 2014, *Long short-term memory recurrent neural network architectures for large scale acoustic modeling*,
with the clips of TensorFlow's `LSTMCell` (`cell_clip`, `proj_clip`), which is what bilm-tf trains.
"""

from elmo_plugin.kernels.auto import auto, fused_on_demand, graphed, pipelined_on_demand
from elmo_plugin.kernels.batched import batched
from elmo_plugin.kernels.linear import Linear, linear, with_linear
from elmo_plugin.kernels.reference import reference
from elmo_plugin.kernels.signature import Inputs, Kernel, LstmClips, LstmState, LstmWeights, TokenTable, dense
from elmo_plugin.kernels.stack import LayerByLayer, Stack, StackKernel, StackOptions, StackOutput

KERNELS: dict[str, Kernel] = {
    "auto": auto,
    "batched": batched,
    "fused": fused_on_demand,
    "graphed": graphed,
    "reference": reference,
}
"""Every kernel of one layer by its name; `auto` is the one for the device that it finds its inputs on."""

STACK_KERNELS: dict[str, StackKernel] = {
    **{name: LayerByLayer(kernel) for name, kernel in KERNELS.items()},
    "pipelined": pipelined_on_demand,
}
"""What configs name: every kernel of one layer, run layer by layer, and those of a whole stack."""


def stack_kernel_by_name(name: str) -> StackKernel:
    """The kernel of this name. Raises `ValueError` for an unknown one."""
    if name not in STACK_KERNELS:
        raise ValueError(f"no kernel is called {name!r}; wanted one of {', '.join(sorted(STACK_KERNELS))}")
    return STACK_KERNELS[name]


__all__ = [
    "KERNELS",
    "STACK_KERNELS",
    "Inputs",
    "Kernel",
    "LayerByLayer",
    "Linear",
    "LstmClips",
    "LstmState",
    "LstmWeights",
    "Stack",
    "StackKernel",
    "StackOptions",
    "StackOutput",
    "TokenTable",
    "batched",
    "dense",
    "linear",
    "reference",
    "stack_kernel_by_name",
    "with_linear",
]
