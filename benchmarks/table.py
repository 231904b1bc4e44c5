"""Markdown tables, and a head that says what was measured on which machine."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.timing import Times
from elmo_plugin.bilm import LstmOptions
from elmo_plugin.tensors import has_native_bfloat16

ROOT = Path(__file__).resolve().parents[1]
TIMES = ["median", "min–max", "× AllenNLP"]
"""The headers of `time_cells`."""
AGREEMENT = "largest difference, cosine"


class Table(NamedTuple):
    """A table with a title and a remark."""

    title: str
    remark: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def lines(self) -> Iterator[str]:
        """Yield the lines of Markdown."""
        yield from (f"### {self.title}", "", self.remark, "")
        yield f"| {' | '.join(self.header)} |"
        yield f"|---{'|---:' * (len(self.header) - 1)}|"
        yield from (f"| {' | '.join(row)} |" for row in self.rows)
        yield ""


def head(size: str, lstm: LstmOptions, device: torch.device, text: str, module: str = "benchmarks") -> list[str]:
    """Return the lines that name the biLM, the machine, the versions, the text and the command."""
    *lines, command, empty = machine(module)
    title = f"## {size} ({lstm.cell_dim}/{lstm.projection_dim}) on {processor(device)}"
    return [title, "", *lines, f"- text: {text}", command, empty]


def machine(module: str) -> list[str]:
    """Return the lines that name the machine, the versions and the command."""
    # Folders are left out, because they mean nothing on another machine.
    arguments = [Path(argument).name if "/" in argument else argument for argument in sys.argv[1:]]
    cores = len(os.sched_getaffinity(0))
    return [
        f"- {date.today().isoformat()}, commit {commit()}",
        f"- {processor(torch.device('cpu'))}",
        f"- cores: {torch.get_num_threads()} used by torch, {cores} allowed; {instructions()}",
        f"- Python {platform.python_version()}, torch {torch.__version__}, AllenNLP {version('allennlp')}",
        f"- `python -m {' '.join([module, *arguments])}`",
        "",
    ]


def processor(device: torch.device) -> str:
    """Return the name of the GPU or of the processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpu = cpu_info()
    if "model name" not in cpu:
        return platform.processor() or platform.machine()
    # A virtual machine may hide the full name; family and model tell the generation.
    return f"{cpu['model name']} (family {cpu.get('cpu family', '?')}, model {cpu.get('model', '?')})"


def instructions() -> str:
    """Return the processor's instructions that matter to products of low precision."""
    flags = set(cpu_info().get("flags", "").split())
    found = sorted(flags & {"amx_tile", "amx_bf16", "amx_int8", "avx2", "avx512f", "avx512_bf16", "avx512_vnni"})
    listed = ", ".join(found) or "no known vector instructions"
    return listed if has_native_bfloat16() else f"{listed}; no native bfloat16: `bfloat16` of ours is float32"


def cpu_info() -> dict[str, str]:
    """Return what Linux says about the processor."""
    file = Path("/proc/cpuinfo")
    lines = (line.partition(":") for line in (file.read_text().splitlines() if file.exists() else []))
    return {key.strip(): value.strip() for key, _, value in lines}


def commit() -> str:
    """Return the short hash of the commit, with a note if files differ from it, or `unknown` outside a repository."""

    def git(*command: str) -> str:
        return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, check=True, text=True).stdout.strip()

    try:
        return git("rev-parse", "--short", "HEAD") + " and changes" * bool(git("status", "--porcelain"))
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def time_cells(times: Times, baseline: Times) -> list[str]:
    """Return the median, the range, and how many times faster than the baseline the system is."""
    low, high = duration(min(times.seconds)), duration(max(times.seconds))
    return [duration(times.median), f"{low}–{high}", f"{times.times_faster_than(baseline):.2f} ×"]


def duration(seconds: float) -> str:
    """Return a duration with about three digits, in milliseconds or seconds."""
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.2f} s" if seconds < 100 else f"{seconds:.0f} s"
