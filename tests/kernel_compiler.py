"""Compiles our Triton kernels, in a process of its own: Triton 3.2 leaves its interpreter on once it has run."""

import os

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from elmo_plugin.lstm import triton as kernels

WIDE = ("operand", "gates", "recurrent", "projection", "cell_output", "d_raw", "d_gates")
"""The tensors that have the number type of products; the others have float32."""


def compile_kernel(name: str, dtype: str, cache: str) -> int:
    """Return the size of a kernel's machine code for an H100, for 32 sentences at the original size."""
    os.environ["TRITON_CACHE_DIR"] = cache
    kernels._gpu = lambda _: (132, 232448, "tf32x3")  # type: ignore[assignment]
    deepest = 4096 if name == "forward_steps" else 4 * 4096
    _, tile, options = kernels.plan_of(torch.device("cuda"), 32, 4096, 512, deepest, getattr(torch, dtype))
    constants = {
        **{"CELL_CLIP": 3.0, "OUTPUT_CLIP": 3.0, "DIRECTIONS": 2, "H": 4096, "P": 512, "KEEP": True},
        **tile,
        "INTERPRETED": False,
    }
    kernel = getattr(kernels, name)
    constants = {key: value for key, value in constants.items() if key in kernel.arg_names}
    known = {
        **dict.fromkeys(constants, "constexpr"),
        **dict.fromkeys(WIDE, "*fp32" if dtype == "float32" else "*bf16"),
        **dict.fromkeys(["sizes", "arrivals"], "*i32"),
        **dict.fromkeys(["tokens", "batch", "n_steps", "most"], "i32"),
        **dict.fromkeys(["recurrent_stride", "projection_stride"], "i64"),
    }
    signature = {argument: known.get(argument, "*fp32") for argument in kernel.arg_names}
    source = ASTSource(kernel, signature, constants)
    return len(triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["cubin"])
