"""THE LSTMP RECURRENCE: an LSTM with a projected output and clips, as kernels of one signature. Imports only torch.

Sak et al. 2014, *Long short-term memory recurrent neural network architectures for large scale acoustic modeling*,
with the clips of TensorFlow's `LSTMCell` (`cell_clip`, `proj_clip`), which bilm-tf trains. Begin with `reference.py`.
"""

from elmo_plugin.lstm.int8 import Int8Weight, has_int8
from elmo_plugin.lstm.kernels import KERNELS, kernel_by_name
from elmo_plugin.lstm.outside_of_graphs import outside_of_graphs
from elmo_plugin.lstm.products import (
    NUMBER_TYPES,
    DifferentiableProduct,
    LayerProducts,
    Linear,
    Versions,
    fastest_product,
    has_native_bfloat16,
    layer_products,
    linear,
    number_type,
    product_type,
    with_linear,
)
from elmo_plugin.lstm.recurrence import packed
from elmo_plugin.lstm.step_order import StepOrder
from elmo_plugin.lstm.types import Kernel, LstmClips, LstmState, LstmWeights, Product

__all__ = [
    "KERNELS",
    "NUMBER_TYPES",
    "DifferentiableProduct",
    "Int8Weight",
    "Kernel",
    "LayerProducts",
    "Linear",
    "LstmClips",
    "LstmState",
    "LstmWeights",
    "Product",
    "StepOrder",
    "Versions",
    "fastest_product",
    "has_int8",
    "has_native_bfloat16",
    "kernel_by_name",
    "layer_products",
    "linear",
    "number_type",
    "outside_of_graphs",
    "packed",
    "product_type",
    "with_linear",
]
