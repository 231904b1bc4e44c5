"""Tie the life of a process to the process that started it."""

import os
import sys
from threading import Thread


def end_with_parent() -> None:
    """End this process when its parent ends. The parent holds the other end of the pipe that is standard input."""

    def wait() -> None:
        sys.stdin.read()
        os._exit(1)

    Thread(target=wait, daemon=True).start()
