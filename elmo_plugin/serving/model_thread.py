"""The one thread that uses the models, and the requests that wait for it."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

Task = Callable[[Sequence[Any]], list[Any]]
"""A function from items to one answer for each. The answer to an item does not depend on the other items."""

MOST_TOGETHER = 16
"""The most items of several requests that are answered by one call."""


class _Job(NamedTuple):
    task: Task
    items: Sequence[Any]
    answers: Future[list[Any]]


class ModelThread:
    """Answers requests one after the other. Requests that wait for the same task are answered by one call."""

    def __init__(self) -> None:
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._stopped = False

    def start(self) -> None:
        """Start to answer."""
        threading.Thread(target=self._work, name="models", daemon=True).start()

    def stop(self) -> None:
        """Stop after the current call."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    async def answer(self, task: Task, items: Sequence[Any]) -> list[Any]:
        """Return the answers of a task, or raise its error. A job that is cancelled before it starts is skipped."""
        job = _Job(task, items, Future())
        with self._changed:
            self._jobs.append(job)
            self._changed.notify()
        return await asyncio.wrap_future(job.answers)

    def _work(self) -> None:
        while together := self._next():
            try:
                answers = together[0].task([item for job in together for item in job.items])
            except Exception:  # one request may have caused it: answer each by itself
                for job in together:
                    try:
                        job.answers.set_result(job.task(job.items))
                    except Exception as error:
                        job.answers.set_exception(error)
                continue
            for job in together:
                job.answers.set_result(answers[: len(job.items)])
                answers = answers[len(job.items) :]

    def _next(self) -> list[_Job]:
        """Wait for a job. Return it and the jobs that can be answered with it, or nothing after `stop`."""
        with self._changed:
            while not self._stopped:
                together: list[_Job] = []
                n_items = 0
                for job in list(self._jobs):
                    fits = not together or n_items + len(job.items) <= MOST_TOGETHER
                    if fits and (not together or job.task == together[0].task):
                        self._jobs.remove(job)
                        if job.answers.set_running_or_notify_cancel():  # false if it was cancelled
                            together.append(job)
                            n_items += len(job.items)
                if together:
                    return together
                self._changed.wait()
        return []
