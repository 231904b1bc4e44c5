"""Without a GPU, Triton's interpreter runs the kernels; it looks at this when their module is first imported."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
