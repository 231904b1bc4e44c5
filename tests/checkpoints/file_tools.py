"""Helpers for tests of several formats: compare, damage and pack files."""

import zipfile
from pathlib import Path


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
