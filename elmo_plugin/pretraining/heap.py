"""The heap of a process that trains on a CPU."""

import ctypes
import sys
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Parameters of `mallopt`, from glibc's `malloc.h`."""


@cache
def keep_freed_memory() -> bool:
    """Let this process keep the memory that it frees, and return whether the C library can do that.

    A step of training allocates the same tensors as the step before. glibc returns those of more than 32 MB to
    the system, which must clear and map their pages again: about a quarter of the time of a step. The peak of the
    process's memory grows by up to a tenth.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    return mallopt is not None and bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, -1))
