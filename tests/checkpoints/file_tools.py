"""Helpers for tests of several formats: compare, damage and pack files, and measure the memory that reading takes."""

import resource
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def contents(path: Path) -> dict[str, bytes]:
    """Return the bytes of a file, or of each file of a folder, by name."""
    return {each.name: each.read_bytes() for each in (path.iterdir() if path.is_dir() else [path])}


def flipped(content: bytes, position: int, bit: int = 6) -> bytes:
    """Return the bytes with one bit flipped."""
    return content[:position] + bytes([content[position] ^ 1 << bit]) + content[position + 1 :]


def zipped(folder: Path, path: Path) -> Path:
    """Pack the content of a folder into a zip file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder))
    return path


class Code:
    """Create a file when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Path]]:
        return Path.touch, (self.trace,)


def max_memory() -> int:
    """Return the peak memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
