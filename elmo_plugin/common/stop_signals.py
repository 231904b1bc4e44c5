"""Stop a job cleanly on SIGTERM or Ctrl-C."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Optional

BETWEEN = 1.0
"""Seconds in which a repeated Ctrl-C counts as the first one, because `timeout` and `uv run` may send it twice."""


class Stopped(SystemExit):
    """Raised to stop a job because of a signal. The exit code is 128 plus the number of the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.signal = signal.Signals(number)


@contextmanager
def on_stop_signal(react: Callable[[int], None]) -> Iterator[None]:
    """Call `react` with the number of the first SIGTERM or SIGINT (Ctrl-C) that the process receives.

    If `react` raises `Stopped`, an error that the interrupted work raises in turn is replaced by this `Stopped`. Later
    signals are ignored, but a second Ctrl-C ends the process at once, as a kill does. The earlier handlers are restored
    at the end. A signal that the process ignores stays ignored, such as Ctrl-C in a background job of a shell. Outside
    the main thread, where Python allows no signal handlers, nothing is changed.
    """
    since: Optional[float] = None
    stopped: Optional[Stopped] = None

    def handle(number: int, frame: Optional[FrameType]) -> None:
        nonlocal since, stopped
        if since is None:
            since = time.monotonic()
            try:
                react(number)
            except Stopped as error:
                stopped = error
                raise
        elif number == signal.SIGINT and time.monotonic() - since > BETWEEN:
            os._exit(128 + number)

    earlier: dict[int, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for stops in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(stops) != signal.SIG_IGN:
                    earlier[stops] = signal.signal(stops, handle)
        yield
    except GeneratorExit:  # a job that never ended is garbage collected, perhaps while another one handles signals
        earlier.clear()
        raise
    except Exception:
        if stopped is None:
            raise
        raise stopped from None
    finally:
        for number, handler in earlier.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def stop(number: int) -> None:
    """Raise `Stopped`. This is the reaction for a job that loses nothing wherever it is interrupted."""
    raise Stopped(number)
