"""Peak memory of one system at a time, each in a process of its own."""

import ctypes
import gc
import multiprocessing
import resource
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

from benchmarks.systems import System
from benchmarks.text import Sentences
from elmo_plugin.text import batch_to_ids

T = TypeVar("T")
MIB = 2**20
CLEAR_REFS = Path("/proc/self/clear_refs")


class Peak(NamedTuple):
    """The most MiB in use while embedding, without the imports: with the loaded model, and without it."""

    with_model: float
    beside_model: float


def peak_of(system: System, files: Path, device: torch.device, batches: Sequence[Sentences]) -> Peak:
    """Return the peak while these batches are embedded one after the other and their vectors are dropped.

    On a CPU that of a new process, because a process keeps freed memory. Of a GPU's memory PyTorch counts its own.
    """
    if device.type == "cuda":
        return measure_peak(system, files, device, batches)
    return in_new_process(measure_peak, system, files, device, batches)


def in_new_process(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a new process, which shares no memory with this one."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as process:
        return process.submit(function, *arguments).result()


def measure_peak(system: System, files: Path, device: torch.device, batches: Sequence[Sentences]) -> Peak:
    """Return the peak of this process."""
    meter = GpuMemory() if device.type == "cuda" else ResidentMemory()
    before = meter.now()
    embedder = system.load(files, device)
    meter.restart()
    loaded = meter.now()
    for batch in batches:
        embedder.embed(batch_to_ids(batch))
    peak = meter.peak()
    return Peak((peak - before) / MIB, (peak - loaded) / MIB)


class ResidentMemory:
    """Bytes of this process in physical memory, as Linux counts them."""

    def now(self) -> int:
        """Return the bytes in use, after returning free memory to the system."""
        return_free_memory()
        return self.resident()

    def resident(self) -> int:
        """Return the bytes in use."""
        return status("VmRSS")

    def restart(self) -> None:
        """Measure the peak from now on, if the kernel allows it."""
        return_free_memory()
        try:
            CLEAR_REFS.write_text("5")
        except OSError:
            return

    def peak(self) -> int:
        """Return the most bytes since `restart`, or since the process started."""
        try:
            return status("VmHWM")
        except LookupError:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def status(name: str, process: object = "self") -> int:
    """Return an entry of Linux's status of a process, in bytes: `VmRSS`, the memory in use, or `VmHWM`, its peak."""
    for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


def return_free_memory() -> None:
    """Return free memory to the system, which glibc would keep for the next request."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


class GpuMemory:
    """Bytes of this process's tensors on the GPU."""

    def now(self) -> int:
        gc.collect()
        return torch.cuda.memory_allocated()

    def restart(self) -> None:
        torch.cuda.reset_peak_memory_stats()

    def peak(self) -> int:
        return torch.cuda.max_memory_allocated()
