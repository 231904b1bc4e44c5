"""THE LSTMP RECURRENCE: an LSTM with a projected output and clips, as kernels of one signature. Imports only torch.

Sak et al. 2014, *Long short-term memory recurrent neural network architectures for large scale acoustic modeling*,
with the clips of TensorFlow's `LSTMCell` (`cell_clip`, `proj_clip`), which bilm-tf trains. Begin with `reference.py`.
"""

from elmo_plugin.lstm.kernels import KERNELS
from elmo_plugin.lstm.layer_products import DifferentiableProduct, KeptProducts, differentiable
from elmo_plugin.lstm.recurrence import packed
from elmo_plugin.lstm.types import Kernel, LstmClips, LstmInputs, LstmState, LstmWeights, Product, StepOrder

__all__ = [
    "KERNELS",
    "DifferentiableProduct",
    "KeptProducts",
    "Kernel",
    "LstmClips",
    "LstmInputs",
    "LstmState",
    "LstmWeights",
    "Product",
    "StepOrder",
    "differentiable",
    "packed",
]
