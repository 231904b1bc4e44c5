"""The models' thread: which requests are answered together, and what one request's error means for the others."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from elmo_plugin.serving.model import ModelThread


class Doubling:
    """A task that doubles numbers, fails for 0, and notes its calls."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.may_begin = threading.Event()
        self.may_begin.set()

    def double(self, numbers: Sequence[int]) -> list[Any]:
        self.may_begin.wait(10)
        self.calls.append([*numbers])
        if 0 in numbers:
            raise ValueError("zero")
        return [2 * number for number in numbers]

    def negate(self, numbers: Sequence[int]) -> list[Any]:
        return [-number for number in numbers]


def answers(*requests: tuple[Callable[..., list[Any]], list[int]]) -> list[Any]:
    """The answers to requests that all wait when the work starts. An error is the answer to its request."""

    async def ask() -> list[Any]:
        thread = ModelThread()
        tasks = [asyncio.ensure_future(thread.answer(task, items)) for task, items in requests]
        return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(ask())


def test_requests_for_the_same_task_are_answered_by_one_call() -> None:
    doubling = Doubling()
    double = doubling.double
    requests = [(double, [1]), (doubling.negate, [5]), (double, [2, 3]), (double, []), (double, [4])]
    assert answers(*requests) == [[2], [-5], [4, 6], [], [8]]
    assert doubling.calls == [[1, 2, 3, 4]]


def test_an_error_is_the_error_of_its_own_request() -> None:
    double = Doubling().double
    one, error, two = answers((double, [1]), (double, [0]), (double, [2]))
    assert (one, two) == ([2], [4]) and isinstance(error, ValueError)


def test_a_task_that_fails_is_run_once() -> None:
    doubling = Doubling()
    (error,) = answers((doubling.double, [0, 1]))
    assert isinstance(error, ValueError) and doubling.calls == [[0, 1]]


def test_a_cancelled_request_is_not_computed() -> None:
    doubling = Doubling()
    doubling.may_begin.clear()

    async def ask() -> list[Any]:
        thread = ModelThread()
        tasks = [asyncio.ensure_future(thread.answer(doubling.double, [1]))]
        await asyncio.sleep(0.05)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(thread.answer(doubling.double, [2]), 0.05)
        doubling.may_begin.set()
        return [await tasks[0], await thread.answer(doubling.double, [3])]

    assert asyncio.run(ask()) == [[2], [6]]
    assert doubling.calls == [[1], [3]]
