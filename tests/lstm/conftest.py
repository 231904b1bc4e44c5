"""Without a GPU, Triton's interpreter runs the kernels. Triton reads the variable when the kernels are imported."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
