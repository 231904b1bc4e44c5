"""One trial: a job meets a fault, is continued, and is compared with the job that met none."""

import io
import json
import os
import re
import shutil
import sqlite3
import sys
import tarfile
from contextlib import closing, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from tests.faults.jobs import Job, Step
from tests.faults.processes import BROKEN, FAULTS, FULL, Ended, Processes
from tests.pretraining_runs import differences

State = dict[str, Any]
"""The content of each file, and `None` for each folder."""
CACHE = "layers.sqlite"
NOT_COMPARED = (".log", ".lock", "-journal")
CHANGING = re.compile(rf".*\.th|.*/metrics.*\.json|.*{CACHE}")
"""Files that hold another content in the course of a job; the others are complete once they have their name."""
UNFINISHED = re.compile(r".*\.(part|partial)(/.*)?")
ALLENNLPS = re.compile(r"run/(metrics.*\.json|meta\.json|best\.th|model\.tar\.gz|vocabulary/.*)")
"""Files that AllenNLP writes under their final names. A run that is continued writes them again."""
QUOTED = re.compile(r"'([^'\n]+)'")


class Trials:
    """The trials of one job, in a folder of its own, which becomes the working directory."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job = job
        self.run = folder / "run"
        self.processes = Processes(self.run)
        (folder / "inputs").mkdir(parents=True)
        self.run.mkdir()
        self._succeed(lambda: job.inputs(folder / "inputs"))
        self._reset()
        self.before = state_of(self.run)
        self._succeed(lambda: with_modules(job.start, folder / "modules"))
        for name in (folder / "modules").read_text().split():
            with suppress(Exception):
                import_module(name)
        self._reset()
        self.operations = self._succeed(job.start).operations
        self.end = state_of(self.run)

    def numbered(self, fault: str, number: int) -> list[str]:
        """Let an operation fail, continue the job, and return what is wrong."""
        self._reset()
        mode = FAULTS[fault]
        ended = self.processes.run(self.job.start, mode, number)
        problems = self._incomplete()
        if mode in (FULL, BROKEN):
            problems += self._not_said(ended) if ended.status else self._different()
        elif not ended.status:
            problems.append("the job was not killed")
        return problems + self._continued()

    def _reset(self) -> None:
        os.chdir(self.run.parent)
        shutil.rmtree(self.run)
        self.run.mkdir()
        os.chdir(self.run)
        self._succeed(self.job.before)

    def _succeed(self, step: Any) -> Ended:
        ended = self.processes.run(step)
        if ended.status:
            raise RuntimeError(f"a step without faults ended with {ended.status}:\n{ended.output}")
        return ended

    def _continued(self) -> list[str]:
        ended = self.processes.run(self.job.again)
        if ended.status:
            return [f"cannot be continued: {last_line(ended.output)}"]
        return self._different()

    def _different(self) -> list[str]:
        """Return the files that are left, and where the others differ from the end of a job that met no fault."""
        found = state_of(self.run)
        left = sorted(found.keys() - self.end.keys())
        compared = {name: found.get(name) for name in self.end if not name.endswith(CACHE)}
        places = differences(compared, {name: self.end[name] for name in compared}) + self._different_cache(found)
        return [f"'{name}' is left" for name in left] + [f"differs at the end: {place}" for place in places]

    def _incomplete(self) -> list[str]:
        """Return the files that are neither complete nor named as unfinished, and a mixture of old and new files."""
        found = {name: content for name, content in state_of(self.run).items() if not UNFINISHED.fullmatch(name)}
        if self.job.is_training:
            found = {name: content for name, content in found.items() if not ALLENNLPS.fullmatch(name)}
        problems = [f"'{name}' is incomplete: {e!r}" for name, e in found.items() if isinstance(e, Exception)]
        known = self.before.keys() | self.end.keys()
        fixed = {name: content for name, content in found.items() if name in known and not CHANGING.fullmatch(name)}
        old, new = ({name: state.get(name) for name in fixed} for state in (self.before, self.end))
        for name, content in fixed.items():
            if differences(content, new[name]) and (name not in self.before or differences(content, old[name])):
                problems.append(f"'{name}' is incomplete")
        if found.keys() >= self.end.keys() and differences(fixed, new) and differences(fixed, old):
            problems.append("old and new files are mixed")
        return problems + self._different_cache(found)

    def _different_cache(self, found: State) -> list[str]:
        """Return where a sentence cache differs. It may be missing, or lack sentences: they are computed then."""
        caches = [name for name in found.keys() & self.end.keys() if isinstance(found[name], dict)]
        caches = [name for name in caches if name.endswith(CACHE)]
        known = {name: {key: self.end[name].get(key) for key in found[name]} for name in caches}
        return differences({name: found[name] for name in caches}, known)

    def _not_said(self, ended: Ended) -> list[str]:
        """Return a problem unless a line of the output names a file of the job, without a traceback."""
        if self.job.is_training:  # AllenNLP's own errors name no file
            return []
        paths = (os.path.normpath(self.run / name) for name in QUOTED.findall(ended.output))
        names = [path.startswith(f"{self.run}/") for path in paths]
        is_said = any(names) and "Traceback" not in ended.output
        return [] if is_said else [f"no error of one line with the file: {last_line(ended.output)}"]


def with_modules(step: Step, names: Path) -> None:
    """Do a step, and write down which modules are imported then."""
    try:
        step()
    finally:
        names.write_text("\n".join(sys.modules))


def last_line(output: str) -> str:
    """Return the last line that is not empty."""
    return next((line for line in reversed(output.splitlines()) if line.strip()), "")


def state_of(folder: Path) -> State:
    """Return the content of all files in a folder; an exception for a file that cannot be read."""
    return {str(path.relative_to(folder)): content_of(path) for path in sorted(folder.rglob("*"))}


def content_of(path: Path) -> Any:
    """Return the content of a file, independent of times."""
    if path.is_dir() or path.name.endswith(NOT_COMPARED):
        return None
    if path.name == CACHE and not path.stat().st_size:
        return {}  # SQLite has not made the file yet
    try:
        if path.name == CACHE:
            with closing(sqlite3.connect(path)) as store:
                return {key.hex(): value for key, value in store.execute("SELECT key, value FROM layers")}
        return content(path.name, path.read_bytes())
    except Exception as error:
        return error


def content(name: str, data: bytes) -> Any:
    """Return what the bytes of a file hold."""
    if name.endswith(".th"):
        return torch.load(io.BytesIO(data), weights_only=True)
    if name.endswith(".json"):
        return json.loads(data)
    if name.endswith(".tar.gz"):
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            files = [member for member in archive if member.isfile()]
            return {file.name: content(file.name, archive.extractfile(file).read()) for file in files}  # type: ignore[union-attr]
    return data
