"""THE LSTMP RECURRENCE: an LSTM with a projected output and clips, as kernels of one signature. Imports only torch.

Sak et al. 2014, *Long short-term memory recurrent neural network architectures for large scale acoustic modeling*,
with the clips of TensorFlow's `LSTMCell` (`cell_clip`, `proj_clip`), which bilm-tf trains. Begin with `reference.py`.
"""

from elmo_plugin.lstm.int8 import Int8Weight, has_int8
from elmo_plugin.lstm.kernels import KERNELS, fastest_kernel, kernel_by_name
from elmo_plugin.lstm.packed import packed, prepack
from elmo_plugin.lstm.packing import Packing
from elmo_plugin.lstm.products import (
    NUMBER_TYPES,
    Linear,
    Version,
    has_native_bfloat16,
    linear,
    number_type,
    pack,
    product,
    product_type,
    product_with,
    weight_gradient,
    with_linear,
)
from elmo_plugin.lstm.reference import reference
from elmo_plugin.lstm.types import Kernel, LstmClips, LstmState, LstmWeights

__all__ = [
    "KERNELS",
    "NUMBER_TYPES",
    "Int8Weight",
    "Kernel",
    "Linear",
    "LstmClips",
    "LstmState",
    "LstmWeights",
    "Packing",
    "Version",
    "fastest_kernel",
    "has_int8",
    "has_native_bfloat16",
    "kernel_by_name",
    "linear",
    "number_type",
    "pack",
    "packed",
    "prepack",
    "product",
    "product_type",
    "product_with",
    "reference",
    "weight_gradient",
    "with_linear",
]
