"""Run a target on many inputs in a process of its own, and find what is neither an answer nor one of our errors.

The process may fork children, as the reader of files does; they are watched, too.

Input number n of a target depends on nothing but the seed and n, so that a finding is repeated by `--only n`.
PyTorch writes a pickle in its old format differently each time, so that inputs made from one are not the same again.
"""

import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
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
"""Of the processor, for one input. One that waits sixty times as long by the clock ends the process."""
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
    outcomes: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        log.touch()
        while len(outcomes) < inputs:
            numbers = range(first + len(outcomes), first + inputs)
            process = multiprocessing.get_context("fork").Process(target=_child, args=(target, numbers, seed, log))
            process.start()
            process.join()
            outcomes = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
            if process.exitcode != 0:
                what = f"the process ended with {process.exitcode}"
                outcomes.append({"kind": what, "what": what, "seconds": 0.0, "memory": 0})
                _write(log, outcomes[-1])
    findings: dict[str, Finding] = {}
    for number, outcome in enumerate(outcomes, first):
        if outcome["memory"] > MOST_MEMORY:
            outcome |= {"kind": f"memory {number}", "what": f"{outcome['memory']:,} bytes of memory"}
        if outcome["what"]:
            findings.setdefault(outcome["kind"], Finding(number, outcome["what"]))
    kinds = [outcome["kind"] for outcome in outcomes]
    slowest, memory = (max(outcome[key] for outcome in outcomes) for key in ("seconds", "memory"))
    return Result(kinds.count("answer"), kinds.count("error"), sorted(findings.values()), slowest, memory)


def _write(log: Path, outcome: dict[str, Any]) -> None:
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(outcome) + "\n")


def _child(target: Target, numbers: range, seed: int, log: Path) -> None:
    with open(os.devnull, "r+") as null:
        for stream in (0, 1, 2):
            os.dup2(null.fileno(), stream)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as name:
        folder = Path(name)
        (folder / "corpus").mkdir()
        run = target(folder / "corpus")
        os.chdir(folder)
        file_utils.CACHE_DIRECTORY = tempfile.tempdir = str(folder)
        _forbid(folder, log)
        signal.signal(signal.SIGPROF, _hang)
        for number in numbers:
            _write(log, _outcome(run, Random(f"{seed}/{number}"), folder))


def _outcome(run: Run, random: Random, folder: Path) -> dict[str, Any]:
    """Feed an input. Return what it did, where if that is a finding, and its seconds and bytes."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak of what made the input
    before, begin, what = _peak(), _seconds(), ""
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS, 1)
    signal.alarm(60 * MOST_SECONDS)  # ends the process
    try:
        run(random, folder)
        kind = "answer"
    except OURS:
        kind = "error"
    except BaseException as error:
        signal.setitimer(signal.ITIMER_PROF, 0)
        place = traceback.extract_tb(error.__traceback__)
        lines = [frame for frame in place if "elmo_plugin" in frame.filename] or place
        kind = f"{type(error).__name__} {lines[-1].filename}:{lines[-1].lineno} {place[-1].filename}:{place[-1].lineno}"
        what = "".join(traceback.format_exception(error))[-3000:]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
    return {"kind": kind, "what": what, "seconds": _seconds() - begin, "memory": _peak() - before}


def _peak() -> int:
    """Return the most memory that this process, or a child that it has waited for, had at a time."""
    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) * 1024


def _seconds() -> float:
    """Return the time of the processor that this process and its children have taken."""
    return sum(os.times()[:4])


def _hang(*_: Any) -> None:
    raise Hang(f"more than {MOST_SECONDS} s")


def _forbid(folder: Path, log: Path) -> None:
    """Let the process raise `Forbidden` when it writes outside its folder, starts a program or opens a connection."""
    inside = (str(folder), os.path.realpath(log), "/dev/null", os.path.realpath("/proc/self"))
    writes = {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}
    never = {"os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen", "socket.connect"}
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
