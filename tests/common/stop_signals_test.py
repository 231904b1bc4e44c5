"""Which signals are handled, and what a second one does."""

import signal
from collections.abc import Iterator
from multiprocessing import get_context

import pytest

from elmo_plugin.common import Stopped, on_stop_signal, stop, stop_signals

STOPS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def handlers_are_restored() -> Iterator[None]:
    before = [signal.getsignal(number) for number in STOPS]
    yield
    assert [signal.getsignal(number) for number in STOPS] == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_job_stops_with_the_exit_code_of_a_shell(number: signal.Signals, code: int) -> None:
    with pytest.raises(SystemExit) as stopped, on_stop_signal(stop):
        signal.raise_signal(number)
    assert stopped.value.code == code and stopped.value.signal is number  # type: ignore[attr-defined]


def test_only_the_first_signal_is_handled_and_signals_right_after_it_are_ignored() -> None:
    received: list[int] = []
    with on_stop_signal(received.append):
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            signal.raise_signal(number)
    assert received == [signal.SIGTERM]


def test_an_error_of_interrupted_work_becomes_stopped_and_other_errors_stay() -> None:
    with pytest.raises(Stopped), on_stop_signal(stop):
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            raise OSError("a file that cannot be closed")
    with pytest.raises(OSError, match="disk"), on_stop_signal([].append):
        signal.raise_signal(signal.SIGTERM)
        raise OSError("disk full")


def interrupt_twice() -> None:
    """Send two signals to this process, which does not stop after the first."""
    stop_signals.BETWEEN = 0.0
    with on_stop_signal(lambda number: None):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)


def test_a_second_ctrl_c_ends_the_process() -> None:
    process = get_context("fork").Process(target=interrupt_twice)
    process.start()
    process.join()
    assert process.exitcode == 130


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with on_stop_signal(stop):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
