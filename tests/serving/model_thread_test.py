"""The models' thread: which requests are answered together, and what one request's error means for the others."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.serving.limits import Limits, RequestError, read_limits
from elmo_plugin.serving.model_thread import MOST_TOGETHER, ModelThread


@pytest.fixture
def thread() -> Iterator[ModelThread]:
    thread = ModelThread()
    yield thread
    thread.stop()


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


def answers(thread: ModelThread, *requests: tuple[Callable[..., list[Any]], list[int]]) -> list[Any]:
    """The answers to requests that all wait when the thread starts. An error is the answer to its request."""

    async def ask() -> list[Any]:
        tasks = [asyncio.ensure_future(thread.answer(task, items)) for task, items in requests]
        await asyncio.sleep(0)
        thread.start()
        return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(ask())


def test_requests_for_the_same_task_are_answered_by_one_call(thread: ModelThread) -> None:
    doubling = Doubling()
    double = doubling.double
    requests = [(double, [1]), (doubling.negate, [5]), (double, [2, 3]), (double, []), (double, [4])]
    assert answers(thread, *requests) == [[2], [-5], [4, 6], [], [8]]
    assert doubling.calls == [[1, 2, 3, 4]]


def test_at_most_16_items_are_answered_together(thread: ModelThread) -> None:
    doubling = Doubling()
    assert answers(thread, *[(doubling.double, [1] * 10)] * 3) == [[2] * 10] * 3
    assert sorted(map(len, doubling.calls)) == [10, 10, 10] and MOST_TOGETHER < 20


def test_an_error_is_the_error_of_its_own_request(thread: ModelThread) -> None:
    double = Doubling().double
    one, error, two = answers(thread, (double, [1]), (double, [0]), (double, [2]))
    assert (one, two) == ([2], [4]) and isinstance(error, ValueError)


def test_a_cancelled_request_is_not_computed(thread: ModelThread) -> None:
    doubling = Doubling()
    doubling.may_begin.clear()
    thread.start()

    async def ask() -> list[Any]:
        tasks = [asyncio.ensure_future(thread.answer(doubling.double, [1]))]
        await asyncio.sleep(0.05)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(thread.answer(doubling.double, [2]), 0.05)
        doubling.may_begin.set()
        return [await tasks[0], await thread.answer(doubling.double, [3])]

    assert asyncio.run(ask()) == [[2], [6]]
    assert doubling.calls == [[1], [3]]


def test_words_are_limited_per_sentence_and_in_total() -> None:
    limits = Limits(words=3, sentence_words=2, characters=4)
    limits.check_words([["a", "bbbb"], [], ["c"]])
    limits.check_given([["a", "bbbb"], "", "c"])
    for given in (["aa aa aa"], ["aaaaa"], [["aaaaa"]], ["a a", "a a"]):
        with pytest.raises(RequestError):
            limits.check_given(given)
    for wrong in ([["a"] * 3], [["a", "b"], ["c", "d"]], [["abcde"]]):
        with pytest.raises(RequestError):
            limits.check_words(wrong)


def test_a_limit_is_at_most_a_billion() -> None:
    assert read_limits(["words=1000000000"]).words == 10**9
    for number in ("1000000001", "10000000000", "0999999999999", "9" * 5000):
        with pytest.raises(ConfigurationError, match=number[:100]):
            read_limits([f"words={number}"])
