"""THE LSTMP RECURRENCE: an LSTM with a projected output and clips, as kernels of one signature. Imports only torch.

Sak et al. 2014, *Long short-term memory recurrent neural network architectures for large scale acoustic modeling*,
with the clips of TensorFlow's `LSTMCell` (`cell_clip`, `proj_clip`), which bilm-tf trains. Begin with `reference.py`.
"""

from elmo_plugin.lstm.kernels import KERNELS, fastest_kernel, kernel_by_name
from elmo_plugin.lstm.packed import packed, prepack
from elmo_plugin.lstm.packing import Packing
from elmo_plugin.lstm.reference import reference
from elmo_plugin.lstm.types import Kernel, LstmClips, LstmState, LstmWeights

__all__ = [
    "KERNELS",
    "Kernel",
    "LstmClips",
    "LstmState",
    "LstmWeights",
    "Packing",
    "fastest_kernel",
    "kernel_by_name",
    "packed",
    "prepack",
    "reference",
]
