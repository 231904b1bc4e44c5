"""Run a target on many inputs in a process of its own, and find what is neither an answer nor one of our errors.

Input number n of a target depends on nothing but the seed and n, so that a finding is repeated by `--only n`.
PyTorch writes a pickle in its old format differently each time, so that inputs made from one are not the same again.
"""

import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from allennlp.common import file_utils
from allennlp.common.checks import ConfigurationError

OURS = (ConfigurationError, FileNotFoundError)
"""The errors that hostile input may raise."""
MOST_SECONDS = 10
"""Of the processor, for one input. A process that makes no progress for six times as long is killed."""
MOST_MEMORY = 2**28
"""Bytes by which one input of at most 2**20 bytes may raise the peak of the process."""
Run = Callable[[Random, Path], None]
"""Make an input from the random numbers, and feed it in an empty folder."""
Target = Callable[[Path], Run]
"""What is fed: make the corpus in a folder, and return what feeds one input."""


class Finding(NamedTuple):
    """What an input did that none may do."""

    number: int
    what: str


class Result(NamedTuple):
    """The counts of a target; findings that come from the same line count once."""

    answers: int
    errors: int
    findings: list[Finding]
    slowest: float
    memory: int


class Hang(BaseException):
    """Raised in an input that runs too long."""


class Forbidden(BaseException):
    """Raised by what no input may do, such as to start a program."""


def fuzz(target: Target, inputs: int, seed: int, first: int = 0) -> Result:
    """Feed the inputs from number `first` on. An input that ends the process is a finding; another one goes on."""
    context = multiprocessing.get_context("fork")
    shared = context.Array("d", 5)  # the next number, answers, errors, the slowest, the most memory
    shared[0] = first
    findings: dict[str, Finding] = {}
    while shared[0] < first + inputs:
        queue = context.SimpleQueue()
        process = context.Process(target=_child, args=(target, first + inputs, seed, shared, queue))
        process.start()
        reason = _watch(process, shared, queue, findings)
        if reason:
            findings.setdefault(reason, Finding(int(shared[0]), reason))
            shared[0] += 1
    return Result(int(shared[1]), int(shared[2]), sorted(findings.values()), shared[3], int(shared[4]))


def _watch(process: Any, shared: Any, queue: Any, findings: dict[str, Finding]) -> str:
    """Wait for a child; return why it ended before its time, or nothing."""
    last, since = -1.0, time.monotonic()
    while True:
        process.join(0.05)
        has_ended = not process.is_alive()  # after which nothing more comes into the queue
        while not queue.empty():
            key, finding = queue.get()
            findings.setdefault(key, finding)
        if has_ended:
            return "" if process.exitcode == 0 else f"the process ended with {process.exitcode}"
        if shared[0] != last:
            last, since = shared[0], time.monotonic()
        elif time.monotonic() - since > 6 * MOST_SECONDS + 60:  # a minute for the corpus
            process.kill()
            process.join()
            return "no progress"


def _child(target: Target, end: int, seed: int, shared: Any, queue: Any) -> None:
    with open(os.devnull, "r+") as null:
        for stream in (0, 1, 2):
            os.dup2(null.fileno(), stream)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as name:
        folder = Path(name)
        (folder / "corpus").mkdir()
        run = target(folder / "corpus")
        os.chdir(folder)
        file_utils.CACHE_DIRECTORY = tempfile.tempdir = str(folder)
        _forbid(folder)
        signal.signal(signal.SIGPROF, _hang)
        for number in range(int(shared[0]), end):
            shared[0] = number
            _feed(run, Random(f"{seed}/{number}"), number, folder, shared, queue)
        shared[0] = end


def _feed(run: Run, random: Random, number: int, folder: Path, shared: Any, queue: Any) -> None:
    before, begin = _peak(), time.process_time()
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS, 1)
    try:
        run(random, folder)
        shared[1] += 1
    except OURS:
        shared[2] += 1
    except BaseException as error:
        signal.setitimer(signal.ITIMER_PROF, 0)
        place = traceback.extract_tb(error.__traceback__)
        lines = [frame for frame in place if "elmo_plugin" in frame.filename] or place
        key = f"{type(error).__name__} {lines[-1].filename}:{lines[-1].lineno} {place[-1].filename}:{place[-1].lineno}"
        queue.put((key, Finding(number, "".join(traceback.format_exception(error))[-3000:])))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    shared[3] = max(shared[3], time.process_time() - begin)
    growth = _peak() - before
    shared[4] = max(shared[4], growth)
    if growth > MOST_MEMORY:
        queue.put((f"memory {number}", Finding(number, f"{growth:,} bytes of memory")))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _hang(*_: Any) -> None:
    raise Hang(f"more than {MOST_SECONDS} s")


def _forbid(folder: Path) -> None:
    """Let the process raise `Forbidden` when it writes outside its folder, starts a program or opens a connection."""
    inside = (str(folder), "/dev/null", "/proc/self")
    writes = {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}
    never = {"os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "subprocess.Popen", "socket.connect"}
    never |= {"pickle.find_class", "urllib.Request"}

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event in never:
            raise Forbidden(f"{event} {arguments}"[:300])
        is_write = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if not is_write and event not in writes:
            return
        for path in arguments[: 2 if event in ("os.rename", "os.link") else 1]:
            if isinstance(path, str | bytes | os.PathLike):
                where = os.path.realpath(os.fsdecode(path))
                if not where.startswith(inside):
                    raise Forbidden(f"{event} {where}"[:300])

    sys.addaudithook(audit)
