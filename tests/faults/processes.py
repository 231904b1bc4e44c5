"""Forks of this process whose changes of files are counted and can fail, by the preloaded library `shim.c`."""

import atexit
import ctypes
import mmap
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

KILL, TEAR, FULL, BROKEN = 1, 2, 3, 4
"""Killed before an operation, or after half of a write; the disk full from there on; one input/output error."""
FAULTS = {"killed": KILL, "killed in the middle": TEAR, "ENOSPC": FULL, "EIO": BROKEN}
CONTROL = "FAULTS_CONTROL"
SECONDS = 120
"""A run that takes longer hangs."""


class _Control(ctypes.Structure):
    """`struct control` of `shim.c`."""

    _fields_ = [
        ("count", ctypes.c_int32),
        ("mode", ctypes.c_int32),
        ("at", ctypes.c_int32),
        ("folder", ctypes.c_char * 4096),
        ("records", ctypes.c_char * 160 * 16384),
    ]


def run_preloaded(arguments: list[str]) -> int:
    """Run a Python command with the library preloaded and with one thread, in a temporary folder that is removed."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        library, control = Path(folder, "shim.so"), Path(folder, "control")
        source = Path(__file__).with_name("shim.c")
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        control.write_bytes(bytes(ctypes.sizeof(_Control)))
        preloaded = {"LD_PRELOAD": str(library), CONTROL: str(control), "TMPDIR": folder, "OMP_NUM_THREADS": "1"}
        quiet = {"ALLENNLP_LOG_LEVEL": "WARNING", "PYTHONWARNINGS": "ignore"}
        environment = {**os.environ, **preloaded, **quiet}
        return subprocess.run([sys.executable, *arguments], env=environment, check=False).returncode


class Ended(NamedTuple):
    """How a run ended: its exit status, or minus the signal that killed it; what it printed; and its operations."""

    status: int
    output: str
    operations: list[str]


class Processes:
    """Runs work in forks, and counts the operations that change files in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with open(os.environ[CONTROL], "r+b") as file:
            self._control = _Control.from_buffer(mmap.mmap(file.fileno(), 0))

    def run(self, work: Callable[[], object], mode: int = 0, at: int = 0) -> Ended:
        """Run `work` as the leader of a process group. Its operation `at`, counted from 1, fails as `mode` says."""
        output = self._folder.with_name("output")
        self._control.folder = b""
        self._control.count, self._control.mode, self._control.at = 0, mode, at
        self._control.folder = str(self._folder).encode()
        process = fork(work, output)
        try:
            status = wait(process)
        finally:
            kill_group(process)
            self._control.folder = b""
        kinds = [bytes(self._control.records[i].value).decode() for i in range(self._control.count)]
        return Ended(status, output.read_text(encoding="utf-8", errors="replace"), kinds)


def fork(work: Callable[[], object], output: Path | None = None) -> int:
    """Start `work` in a fork, as a command of its own: an exception is reported as Python would report it."""
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        if output is not None:
            os.setpgid(0, 0)
            file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, 1)
            os.dup2(file, 2)
        status = _status_of(work)
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _status_of(work: Callable[[], object]) -> int:
    try:
        work()
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        return 1
    return 0


def wait(process: int) -> int:
    """Wait for a fork and return its exit status, or minus its signal. Raises `TimeoutError` for one that hangs."""
    descriptor = os.pidfd_open(process)
    try:
        if not select.select([descriptor], [], [], SECONDS)[0]:
            raise TimeoutError(f"a run took more than {SECONDS} s")
    finally:
        os.close(descriptor)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def kill_group(process: int) -> None:
    """Kill a process that leads a group, and all of the group that are left."""
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(process, 0)
