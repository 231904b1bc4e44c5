"""Run a function in several processes that share the memory of what it holds, such as the weights of a biLM."""

import os
import signal
import sys
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, TypeVar

import torch
from allennlp.common.checks import ConfigurationError
from torch import multiprocessing

Task = TypeVar("Task")
Result = TypeVar("Result")


def unordered(
    function: Callable[[Task], Result], tasks: Iterable[Task], processes: int
) -> Generator[Result, None, None]:
    """Yield `function(task)` of each task, in the order in which they are finished, from several processes.

    Each process uses one thread of PyTorch. On Linux the processes are forks, which share all memory; elsewhere the
    function is pickled, and they share tensors. Tasks are read as they are needed. If this generator is closed or
    raises, or if this process is killed, the processes end at once.

    Raises `ConfigurationError` if one of them is killed.
    """
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    receiver, sender = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(processes, context, _start, (function, receiver, sender))
    waiting: set[Future[Result]] = set()
    try:
        for task in tasks:
            waiting.add(pool.submit(_run, task))
            if len(waiting) > processes:  # one task more than processes, so that none has to wait
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        yield from (future.result() for future in as_completed(waiting))
    except BrokenProcessPool as error:
        raise ConfigurationError(
            f"one of {processes} processes was killed, perhaps because memory ran out; the same command resumes the "
            "run, also with fewer processes"
        ) from error
    finally:
        sender.close()
        pool.shutdown(cancel_futures=True)
        receiver.close()


_function: Callable[[Any], Any]
"""What this process runs, if it is one of several."""


def _start(function: Callable[[Any], Any], receiver: Connection, sender: Connection) -> None:
    """Prepare a process. It ends when nobody can send to `receiver` any more, so its own copy of the other end goes."""
    global _function
    _function = function
    sender.close()
    for stops in (signal.SIGINT, signal.SIGTERM):  # the process that reads the text decides
        signal.signal(stops, signal.SIG_IGN)
    torch.set_num_threads(1)
    Thread(target=_end_with, args=(receiver,), daemon=True).start()


def _end_with(receiver: Connection) -> None:
    """End this process, whatever it is doing, when the other end of the pipe is closed or its process is killed."""
    receiver.poll(None)
    os._exit(1)


def _run(task: Any) -> Any:
    return _function(task)
