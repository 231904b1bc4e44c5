"""What a file is by its first bytes: errors tell it where a file is not what its name says."""

from pathlib import Path
from typing import Optional

HDF5, JSON, ZIP = "an hdf5 file", "a JSON text", "a zip file"
GZIP = "compressed by gzip; unpack it with `gunzip`, or with `tar -xzf` if it is an archive"
SIGNATURES = {
    b"\x89HDF\r\n\x1a\n": HDF5,
    b"\x1f\x8b": GZIP,
    b"\xfd7zXZ\x00": "compressed by xz; unpack it with `unxz`",
    b"PK\x03\x04": ZIP,
    b"version https://git-lfs": "a pointer of Git LFS; fetch the file itself with `git lfs pull`",
}
FIRST_BYTES = 512


def kind_of(path: Path) -> Optional[str]:
    """Return what a file or folder is, with an article, and what to do about it; `None` if that cannot be told."""
    if path.is_dir():
        return "a directory"
    try:
        with path.open("rb") as file:
            first = file.read(FIRST_BYTES)
    except OSError:
        return None
    if not first:
        return "an empty file"
    for signature, kind in SIGNATURES.items():
        if first.startswith(signature):
            return kind
    text = first.removeprefix(b"\xef\xbb\xbf").lstrip()
    if b"\0" in text or not text.startswith((b"<", b"{", b"[")):
        return None
    return JSON if text[:1] != b"<" else "an HTML page, such as one that reports an error; download the file again"


def what_is_wrong(path: Path, expected: Optional[str], error: BaseException) -> str:
    """Return why a file cannot be read: that it is of another kind than `expected`, or else the error itself."""
    kind = kind_of(path)
    return str(error) if kind is None or kind == expected else f"it is {kind}"
