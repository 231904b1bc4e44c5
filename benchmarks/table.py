"""Markdown: the head that says what was measured on what, and tables."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, Optional

import torch

from benchmarks.settings import Settings
from benchmarks.timing import Timed
from elmo_plugin.linear.products import has_native_bfloat16

ROOT = Path(__file__).resolve().parents[1]


class Table(NamedTuple):
    """A table under a title and a remark on what it shows."""

    title: str
    remark: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def lines(self) -> Iterator[str]:
        """As Markdown."""
        yield from (f"### {self.title}", "", self.remark, "")
        yield f"| {' | '.join(self.header)} |"
        yield f"|---{'|---:' * (len(self.header) - 1)}|"
        yield from (f"| {' | '.join(row)} |" for row in self.rows)
        yield ""


def head(settings: Settings) -> Iterator[str]:
    """The machine, the versions, the text."""
    lstm = settings.options.lstm
    yield f"## {settings.size} ({lstm.cell_dim}/{lstm.projection_dim}) on {processor(settings.device)}"
    yield ""
    yield f"- {date.today().isoformat()}, commit {commit()}"
    yield f"- cores: {torch.get_num_threads()} used by torch, {len(os.sched_getaffinity(0))} allowed; {instructions()}"
    yield f"- Python {platform.python_version()}, torch {torch.__version__}, AllenNLP {version('allennlp')}"
    yield f"- text: {settings.text.origin}"
    yield f"- `python -m benchmarks {' '.join(arguments())}`"
    yield ""


def processor(device: torch.device) -> str:
    """The name of the GPU, or of the processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    lines = (line.partition(":") for line in _lines(Path("/proc/cpuinfo")))
    known = {key.strip(): value.strip() for key, _, value in lines}
    if "model name" not in known:
        return platform.processor() or platform.machine()
    # A virtual machine may hide the full name; family and model tell the generation.
    return f"{known['model name']} (family {known.get('cpu family', '?')}, model {known.get('model', '?')})"


def instructions() -> str:
    """What the processor has for products of low precision."""
    flags = {flag for line in _lines(Path("/proc/cpuinfo")) if line.startswith("flags") for flag in line.split()}
    found = sorted(flags & {"amx_tile", "amx_bf16", "amx_int8", "avx2", "avx512f", "avx512_bf16", "avx512_vnni"})
    known = ", ".join(found) or "no vector instructions known"
    return known if has_native_bfloat16() else f"{known}; no native bfloat16: `bfloat16` of ours is float32"


def commit() -> str:
    """The short hash, with a mark if files differ from it; `unknown` outside a repository."""
    try:
        return _git("rev-parse", "--short", "HEAD") + " and changes" * bool(_git("status", "--porcelain"))
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def arguments() -> list[str]:
    """The command line, without the folders of this machine."""
    return [Path(argument).name if "/" in argument else argument for argument in sys.argv[1:]]


def time_cells(timed: Timed, baseline: Optional[Timed]) -> list[str]:
    """Median, range, and how many times faster than the baseline."""
    ratio = "" if baseline is None else f"{timed.times_faster_than(baseline):.2f} ×"
    return [duration(timed.median), f"{duration(min(timed.seconds))}–{duration(max(timed.seconds))}", ratio]


def duration(seconds: float) -> str:
    """Three digits or so, in milliseconds or seconds."""
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.2f} s" if seconds < 100 else f"{seconds:.0f} s"


def _git(*command: str) -> str:
    return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, check=True, text=True).stdout.strip()


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
