"""The memory that the C library and oneDNN keep in a process that trains on a CPU."""

import ctypes
import os
import sys
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Parameters of `mallopt`, from glibc's `malloc.h`."""
PRIMITIVES = 128
"""The number of routines, one per shape of a product, that oneDNN caches in training. Its own default is 1,024."""


def prepare_memory() -> None:
    """Prepare the process for training on a CPU: `keep_freed_memory` and `bound_primitive_cache`."""
    keep_freed_memory()
    bound_primitive_cache()


@cache
def keep_freed_memory() -> bool:
    """Let this process keep the memory that it frees, and return whether the C library can do that.

    Each training step allocates the same tensors as the step before. glibc returns those of more than 32 MB to the
    system, which must then clear and map their pages again; that takes about a quarter of the time of a step. The peak
    memory of the process grows by up to a tenth.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    return mallopt is not None and bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, -1))


def bound_primitive_cache() -> None:
    """Let oneDNN cache routines for `PRIMITIVES` shapes, unless the environment sets another number.

    Batches of whole sentences keep bringing new shapes, so the cache fills up. A cache of 1,024 took 400 MB more than
    one of 128, which took 4 % more processor time (docs/benchmarks.md, Load). PyTorch has no function for this, and
    oneDNN reads the environment once, at the first product of the process.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(PRIMITIVES))
