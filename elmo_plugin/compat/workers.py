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

from elmo_plugin.compat.patching import Function, replace_once


def repair_workers() -> None:
    """Let the `multiprocess` data loader spawn its workers, and fail when one of them is killed.

    Symptom 1: with `start_method: "spawn"` (or `"forkserver"`), `RuntimeError: A SemLock created in a fork context is
    being shared with a process in a spawn context`. Cause: Python 3.11.5 checks that a lock has the context of the
    process that gets it, and the loader creates the lock of the progress bar in the default context. Now both contexts
    are the same.

    Symptom 2: training waits forever for a worker that was killed, for example because memory ran out. Cause: the
    loader waits for a queue that nobody closes. Now it checks its workers while it waits, ends the others, and raises
    `RuntimeError: DataLoader worker (pid …) is killed by signal: Killed`, as PyTorch's own loader does.

    Guard: with the default start method the contexts are the same anyway, and nothing changes unless a worker fails.
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
        if is_finalizing():  # this process is exiting and has already ended its workers
            return
        try:
            if not any(worker.exitcode for worker in workers):
                original(self, workers, queue, pipes)
        finally:
            if any(worker.exitcode for worker in workers):
                for worker in workers:  # the killed one may hold locks of the queue, for which the others would wait
                    worker.kill()
                    worker.join()

    for name in ("_start_instance_workers", "_start_batch_workers"):
        replace_once(MultiProcessDataLoader, name, start_workers)
    replace_once(MultiProcessDataLoader, "_join_workers", join_workers)


class _Watch:
    """Replaces the functions of a queue that wait; raises `RuntimeError` if a worker has died.

    A worker that dies while it writes an item may leave a lock taken, or a part of the item in the pipe, and no timeout
    limits the wait for the rest. SIGCHLD interrupts this wait. Its handler raises only in these functions, so that the
    loader can end the other workers.
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
        """Mark the last item as processed."""
        self._watched(self._task_done)

    def _watched(self, function: Function) -> Any:
        is_main = current_thread() is main_thread()  # the only thread that may set a signal handler
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
            except Exception:  # the connection to a killed worker breaks before its exit code is known
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
