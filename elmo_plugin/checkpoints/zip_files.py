"""Zip files: unpacked into a temporary folder, within the decompression limits."""

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
"""Bytes that a file takes on the disk at least; a zip file may hold a great many empty ones."""


@contextmanager
def unpacked(path: Path, name: str) -> Iterator[Path]:
    """Unpack a zip file, which errors call `name`, into a temporary folder, which is deleted at the end.

    A `ConfigurationError` that is raised while the folder is used names the zip file in its place. A file that is
    damaged, or that would grow beyond the limits, raises one, too.
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
    """Return whether a folder comes from a zip file. A path that is written in it must not lead outside."""
    return any(part.startswith(UNPACKED) for part in folder.parts)
