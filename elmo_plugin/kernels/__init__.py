"""THE LSTMP RECURRENCE: an LSTM with a projected output and clips, as functions of one signature. Torch only.

Sak et al. 2014, *Long short-term memory recurrent neural network architectures for large scale acoustic modeling*,
with the clips of TensorFlow's `LSTMCell` (`cell_clip`, `proj_clip`), which is what bilm-tf trains.
"""

from elmo_plugin.kernels.auto import auto, fused_on_demand, graphed
from elmo_plugin.kernels.batched import batched
from elmo_plugin.kernels.products import product, product_type
from elmo_plugin.kernels.reference import reference
from elmo_plugin.kernels.signature import Inputs, Kernel, LstmClips, LstmState, LstmWeights, TokenTable, dense

KERNELS: dict[str, Kernel] = {
    "auto": auto,
    "batched": batched,
    "fused": fused_on_demand,
    "graphed": graphed,
    "reference": reference,
}
"""Every kernel by the name that configs give it; `auto` is the one for the device that it finds its inputs on."""


def kernel_by_name(name: str) -> Kernel:
    """The kernel of this name. Raises `ValueError` for an unknown one."""
    if name not in KERNELS:
        raise ValueError(f"no kernel is called {name!r}; wanted one of {', '.join(sorted(KERNELS))}")
    return KERNELS[name]


__all__ = [
    "KERNELS",
    "Inputs",
    "Kernel",
    "LstmClips",
    "LstmState",
    "LstmWeights",
    "TokenTable",
    "batched",
    "dense",
    "kernel_by_name",
    "product",
    "product_type",
    "reference",
]
