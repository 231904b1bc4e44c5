"""Compiles our Triton kernels, in a process of its own: Triton 3.2 leaves its interpreter on once it has run."""

import os

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from elmo_plugin.lstm import triton as kernels


def compile_kernel(name: str, clips: bool, cache: str) -> int:
    """Return the size of a kernel's machine code, with or without clips."""
    os.environ["TRITON_CACHE_DIR"] = cache
    kernel = getattr(kernels, name)
    constants = {"CLIP": 3.0 if clips else None, "TYPE": kernels.tl.float32, "BLOCK": kernels.BLOCK}
    floats = dict.fromkeys(
        ("gates", "before", "after", "activations", "output", "d_output", "d_hidden", "d_cell"), "*fp32"
    )
    strides = [argument for argument in kernel.arg_names if argument.endswith("_stride")]
    known = floats | dict.fromkeys(["numbers", "width", *strides], "i32") | dict.fromkeys(constants, "constexpr")
    signature = {argument: known.get(argument, "*bf16") for argument in kernel.arg_names}
    return len(triton.compile(ASTSource(kernel, signature, constants), target=GPUTarget("cuda", 90, 32)).asm["cubin"])
