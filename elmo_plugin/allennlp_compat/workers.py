"""Repairs of the workers of the data loader `multiprocess`."""

import signal
import sys
import time
from multiprocessing.process import BaseProcess
from queue import Empty
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, Optional

import torch
from allennlp.data.data_loaders import multiprocess_data_loader
from allennlp.data.data_loaders.multiprocess_data_loader import MultiProcessDataLoader

from elmo_plugin.allennlp_compat.patching import Function, replace_once


def repair_workers() -> None:
    """Let the `multiprocess` data loader spawn its workers, and fail when one of them is killed.

    Symptoms: with `start_method: "spawn"` (or `"forkserver"`), `RuntimeError: A SemLock created in a fork context is
    being shared with a process in a spawn context`. And training waits forever for a worker that was killed, for
    example because memory ran out. Causes: Python 3.11.5 checks that a lock's context is that of the process that gets
    it, and the loader passes the lock of the progress bar from the default context; now both are the same. And the
    loader waits for a queue that nobody closes; now it looks after its workers while it waits, ends the others, and
    raises `RuntimeError: DataLoader worker (pid …) is killed by signal: Killed`, as PyTorch's own loader does.
    Guard: with the default start method the contexts are the same anyway; a worker that is not killed raises nothing.
    """
    is_finalizing = sys.is_finalizing

    def start_workers(original: Function, self: MultiProcessDataLoader, queue: Any, ctx: Any) -> Any:
        multiprocess_data_loader.mp = ctx  # the original calls `mp.RLock()`
        try:
            workers, pipes = original(self, queue, ctx)
        finally:
            multiprocess_data_loader.mp = torch.multiprocessing
        watch = _Watch(queue, workers)
        queue.get, queue.task_done = watch.get, watch.task_done
        return workers, pipes

    def join_workers(original: Function, self: MultiProcessDataLoader, workers: Any, queue: Any, pipes: Any) -> None:
        if is_finalizing():  # of this process, which has ended its workers
            return
        try:
            if not any(worker.exitcode for worker in workers):
                original(self, workers, queue, pipes)
        finally:
            if any(worker.exitcode for worker in workers):
                for worker in workers:  # the killed one may hold the queue's locks, for which the others wait
                    worker.kill()
                    worker.join()

    for name in ("_start_instance_workers", "_start_batch_workers"):
        replace_once(MultiProcessDataLoader, name, start_workers)
    replace_once(MultiProcessDataLoader, "_join_workers", join_workers)


class _Watch:
    """Stand for the functions of a queue that wait, and raise `RuntimeError` if a worker has died.

    A worker that dies while it writes an item may leave a lock taken, or a part of the item in the pipe, whose rest
    cannot be waited for with a timeout. SIGCHLD interrupts that. Its handler raises only in these functions, so that
    the loader can end the other workers.
    """

    def __init__(self, queue: Any, workers: list[BaseProcess]) -> None:
        self._get, self._task_done = queue.get, queue.task_done
        self._workers = workers
        self._is_waiting = False
        self._earlier: Any = None

    def get(self) -> Any:
        """Return the next item."""
        return self._watched(self._next)

    def task_done(self) -> None:
        """Say that the last item was dealt with."""
        self._watched(self._task_done)

    def _watched(self, function: Function) -> Any:
        is_main = current_thread() is main_thread()  # only there may a handler be set
        if is_main:
            self._earlier = signal.signal(signal.SIGCHLD, self._on_sigchld)
        try:
            self._is_waiting = True
            self._check()
            return function()
        finally:
            self._is_waiting = False
            if is_main:
                signal.signal(signal.SIGCHLD, self._earlier or signal.SIG_DFL)

    def _next(self) -> Any:
        while True:
            try:
                return self._get(True, 1.0)
            except Empty:
                self._check()
            except Exception:  # a connection to a killed worker breaks before its end is known
                time.sleep(1)
                self._check()
                raise

    def _check(self) -> None:
        for worker in self._workers:
            code = worker.exitcode
            if code:
                how = f"is killed by signal: {signal.strsignal(-code)}" if code < 0 else f"ended with exit code {code}"
                raise RuntimeError(f"DataLoader worker (pid {worker.pid}) {how}")

    def _on_sigchld(self, number: int, frame: Optional[FrameType]) -> None:
        if callable(self._earlier):
            self._earlier(number, frame)
        if self._is_waiting:
            self._check()
