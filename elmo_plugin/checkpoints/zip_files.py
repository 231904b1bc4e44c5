"""Unpack zip files into temporary folders, within the decompression limits."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from allennlp.common.checks import ConfigurationError

from elmo_plugin.checkpoints.limits import check_unpacked

UNPACKED = "elmo_plugin-unpacked-"
"""How the names of the temporary folders begin."""
BLOCK = 4096
"""The bytes that even an empty file takes on the disk: a zip file may hold a great many of them."""


@contextmanager
def unpacked(path: Path, name: str) -> Iterator[Path]:
    """Unpack a zip file into a temporary folder, which is deleted when the context ends. Errors call the file `name`.

    In a `ConfigurationError` that is raised while the folder is in use, the name of the zip file replaces the folder's.
    Raises `ConfigurationError` for a damaged file, and for one that would grow beyond the limits.
    """
    with TemporaryDirectory(prefix=UNPACKED) as folder:
        try:
            with zipfile.ZipFile(path) as archive:
                size = 0
                for member in archive.infolist():
                    size += max(member.file_size, BLOCK)
                    check_unpacked(size, path, f"{name}/{member.filename}")
                archive.extractall(folder)
        except ConfigurationError:
            raise
        except Exception as error:  # a damaged zip file may raise anything
            raise ConfigurationError(f"'{name}' cannot be unpacked: {error}") from error
        try:
            yield Path(folder)
        except ConfigurationError as error:
            error.message = str(error.message).replace(folder, name)
            raise


def is_unpacked(folder: Path) -> bool:
    """Return whether a folder comes from a zip file, in which case a path inside its files must not lead outside."""
    return any(part.startswith(UNPACKED) for part in folder.parts)
