"""Peak memory, of one contestant at a time in a process of its own."""

import ctypes
import gc
import multiprocessing
import resource
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.batches import to_ids
from benchmarks.contestants import Contestant
from benchmarks.text import Sentences

MIB = 2**20
STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Peak(NamedTuple):
    """MiB at the highest point of embedding: above what the imports took, and above that and the loaded model."""

    with_model: float
    beside_model: float


def peak_of(contestant: Contestant, files: Path, device: torch.device, batches: Sequence[Sentences]) -> Peak:
    """Embed batches of sentences one after the other in a fresh process, keeping nothing of them."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as process:
        return process.submit(embed_alone, contestant, files, device, batches).result()


def embed_alone(contestant: Contestant, files: Path, device: torch.device, batches: Sequence[Sentences]) -> Peak:
    """What `peak_of` does, in this process."""
    meter = GpuMemory() if device.type == "cuda" else ResidentMemory()
    before = meter.now()
    embedder = contestant.load(files, device)
    meter.restart()
    loaded = meter.now()
    for batch in batches:
        embedder.embed(to_ids(batch, device))
    peak = meter.peak()
    return Peak((peak - before) / MIB, (peak - loaded) / MIB)


class ResidentMemory:
    """Bytes of this process that lie in memory, as Linux counts them."""

    def now(self) -> int:
        """After what is free was given back to the system."""
        give_back()
        return self._status("VmRSS")

    def restart(self) -> None:
        """Count the peak from here on, where the kernel lets us."""
        give_back()
        try:
            CLEAR_REFS.write_text("5")
        except OSError:
            return

    def peak(self) -> int:
        """The most since `restart`, or since the process began."""
        try:
            return self._status("VmHWM")
        except LookupError:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def _status(self, name: str) -> int:
        for line in STATUS.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
        raise LookupError(name)


def give_back() -> None:
    """Free memory that nothing refers to; glibc would keep it for the next to ask."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


class GpuMemory:
    """Bytes that tensors of this process take on the GPU."""

    def now(self) -> int:
        """At this moment."""
        gc.collect()
        return torch.cuda.memory_allocated()

    def restart(self) -> None:
        """Count the peak from here on."""
        torch.cuda.reset_peak_memory_stats()

    def peak(self) -> int:
        """The most since `restart`."""
        return torch.cuda.max_memory_allocated()
