"""Repairs of the workers of the data loader `multiprocess`."""

import signal
from queue import Empty
from sys import is_finalizing  # `sys` itself is gone when the last loaders are
from typing import Any

import torch
from allennlp.data.data_loaders import multiprocess_data_loader

from elmo_plugin.compat.patching import Function, replaces


@replaces("allennlp.data.data_loaders.multiprocess_data_loader.MultiProcessDataLoader._start_instance_workers")
@replaces("allennlp.data.data_loaders.multiprocess_data_loader.MultiProcessDataLoader._start_batch_workers")
def start_workers(original: Function, self: Any, queue: Any, ctx: Any) -> Any:
    """Let the `multiprocess` data loader spawn its workers, and fail when one of them is killed.

    Symptom 1: with `start_method: "spawn"` (or `"forkserver"`), `RuntimeError: A SemLock created in a fork context is
    being shared with a process in a spawn context`. Cause: Python 3.11.5 checks that a lock has the context of the
    process that gets it, and the loader creates the lock of the progress bar in the default context, which is fork
    before Python 3.14. Now both contexts are the same.

    Symptom 2: training waits forever for a worker that was killed, for example because memory ran out. Cause: the
    loader waits for a queue that nobody closes. Now it looks at the exit codes of its workers each second while it
    waits, ends the others, and raises `RuntimeError: DataLoader worker (pid …) is killed by signal: Killed`, as
    PyTorch's own loader does. A worker that is killed while it writes a part of an item still blocks the loader.

    Guard: with the default start method the contexts are the same anyway, and nothing changes unless a worker fails.
    """
    multiprocess_data_loader.mp = ctx  # the original calls `mp.RLock()`
    try:
        workers, pipes = original(self, queue, ctx)
    finally:
        multiprocess_data_loader.mp = torch.multiprocessing
    wait = queue.get

    def get() -> Any:
        while True:
            try:
                return wait(True, 1.0)
            except (Empty, ConnectionError) as error:  # the second if a worker was killed while it handed over a batch
                for worker in workers:
                    worker.join(timeout=1 if isinstance(error, ConnectionError) else 0)  # connections end before it
                    if code := worker.exitcode:
                        how = (
                            f"is killed by signal: {signal.strsignal(-code)}"
                            if code < 0
                            else f"ended with exit code {code}"
                        )
                        raise RuntimeError(f"DataLoader worker (pid {worker.pid}) {how}") from None
                if isinstance(error, ConnectionError):
                    raise

    queue.get = get
    return workers, pipes


@replaces("allennlp.data.data_loaders.multiprocess_data_loader.MultiProcessDataLoader._join_workers")
def join_workers(original: Function, self: Any, workers: Any, queue: Any, pipes: Any) -> None:
    """End all workers if one of them was killed. Nothing is left to do if this process is exiting."""
    if any(worker.exitcode for worker in workers):
        for worker in workers:  # the killed one may hold locks of the queue, for which the others would wait
            worker.kill()
            worker.join()
    elif not is_finalizing():
        original(self, workers, queue, pipes)
