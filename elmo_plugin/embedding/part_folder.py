"""The folder of an unfinished output, which holds its part files."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from allennlp.common.checks import ConfigurationError

from elmo_plugin.common import atomic_file, check_made_with
from elmo_plugin.embedding.joining import JOINED, PLAN

PART = ".part"
"""The ending of the folder's name."""
RUN, PARTS = "run.json", "parts"
OTHER_OUTPUT = "name another output, or delete it"


@contextmanager
def part_folder(folder: Path, run: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the folder for the part files of a run, `parts` in `folder`, which is created if it does not exist.

    `run` is everything except the text that the vectors depend on, as JSON values. It is kept beside the parts, in
    `run.json`. One process at a time may use the folder. A folder without parts is removed at the end.

    Raises `ConfigurationError` for the parts of another run or of version 0.1, for a folder that another process uses,
    and for a folder with other content.
    """
    import fcntl  # does not exist on Windows

    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"'{folder}' cannot be made: {error}") from error
    lock = os.open(folder, os.O_RDONLY)  # the system releases the lock if the process is killed
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigurationError(f"'{folder}': another process is at work in this folder") from error
        _claim(folder, run)
        try:
            yield folder / PARTS
        finally:
            if folder.exists() and not part_names(folder):
                shutil.rmtree(folder)
    finally:
        os.close(lock)


def remove_part_folder(folder: Path) -> None:
    """Remove the folder of a complete output. The parts go first, so that `refuse_existing` recognizes the rest."""
    if (folder / PARTS).exists():
        shutil.rmtree(folder / PARTS)
    shutil.rmtree(folder)


def refuse_existing(*outputs: Path) -> None:
    """Raise `ConfigurationError` for the first output that exists, and remove a part folder that was left beside it.

    A run that is killed after it has renamed its output, and before it has removed the folder, leaves a folder whose
    parts are empty.
    """
    for output in outputs:
        if output.exists():
            folder = output.with_name(f"{output.name}{PART}")
            names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
            if folder.is_dir() and names <= {RUN, PLAN, PARTS} and (PLAN in names or PARTS not in names):
                remove_part_folder(folder)
            raise ConfigurationError(f"'{output}' exists already; {OTHER_OUTPUT}")


def part_names(folder: Path) -> list[str]:
    """Return the names of the finished part files in a run's folder, in the order of the text."""
    parts = folder / PARTS
    return sorted(path.name for path in parts.iterdir() if path.suffix != ".partial") if parts.exists() else []


def _claim(folder: Path, run: Mapping[str, Any]) -> None:
    """Check that the parts in a folder belong to this run. If there are none, record this run."""
    path = folder / RUN
    if (folder / "windows.jsonl").exists():
        raise ConfigurationError(
            f"'{folder}' was made by version 0.1 of elmo_plugin, which kept unfinished outputs in another form; "
            f"finish it with that version, {OTHER_OUTPUT}"
        )
    if not path.exists() and {file.name for file in folder.iterdir()} - {f"{RUN}.partial"}:
        raise ConfigurationError(f"'{folder}': expected the folder of an unfinished output, got other files")
    if (folder / PLAN).exists() and not (folder / JOINED).exists():
        shutil.rmtree(folder / PARTS)  # a run was killed after it renamed its output: the parts are empty
        (folder / PLAN).unlink()
    if part_names(folder):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ConfigurationError(f"'{path}' is damaged; delete '{folder}' to start again") from error
        check_made_with(str(folder), found, run, OTHER_OUTPUT)
    else:
        with atomic_file(path) as partial:
            partial.write_text(json.dumps(run), encoding="utf-8")
        (folder / PARTS).mkdir(exist_ok=True)
