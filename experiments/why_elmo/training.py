"""What all trainings share: the text, the budget of processor time, and the record of what was used of it."""

import _thread
import json
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, Optional

from elmo_plugin.common import atomic_file

HOUR = 3600.0


class Training(NamedTuple):
    """A training of one tool in the folder `folder`.

    `text` is a folder with the text shards `train-*.txt` and with `heldout.txt`, one tokenized sentence per line.
    `budget` is in seconds of processor time.
    """

    folder: Path
    text: Path
    budget: float

    def shards(self) -> list[Path]:
        """Return the text shards."""
        return sorted(self.text.glob("train-*.txt"))

    def read(self, name: str) -> Any:
        """Return the content of a JSON file in the folder, or `None` without it."""
        path = self.folder / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def write(self, name: str, content: Any) -> None:
        """Write a JSON file to the folder."""
        with atomic_file(self.folder / f"{name}.json") as partial:
            partial.write_text(json.dumps(content, indent=2), encoding="utf-8")

    def cpu_seconds(self) -> float:
        """Return the processor time that the processes of this training have used so far."""
        return float(sum((self.read("cpu_seconds") or {}).values()))

    def start_clock(self, stop: bool = False) -> None:
        """Record the processor time of this process every few seconds, beside that of the processes before it.

        With `stop`, this raises `KeyboardInterrupt` in the main thread when the budget is used up.
        """
        before = self.read("cpu_seconds") or {}
        key = f"process {len(before) + 1}"
        start = time.process_time()

        def tick() -> None:
            while True:
                time.sleep(5)
                self.write("cpu_seconds", {**before, key: round(time.process_time() - start, 1)})
                if stop and self.cpu_seconds() >= self.budget:
                    _thread.interrupt_main()
                    return

        if stop:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
        Thread(target=tick, daemon=True).start()

    def steps(self, train: Callable[[int, Path], None], few: int = 4, many: int = 24) -> int:
        """Return how many steps fit in the budget. It is measured once, by calls of `train(steps, folder)`."""
        calibration: Optional[dict[str, float]] = self.read("calibration")
        if calibration is None:
            seconds = []
            for number, steps in enumerate((1, few, many)):  # the first call also pays for what is loaded once
                folder = self.folder / f"calibration-{number}"
                shutil.rmtree(folder, ignore_errors=True)  # of a calibration that was killed
                start = time.process_time()
                train(steps, folder)
                seconds.append(time.process_time() - start)
            each = (seconds[2] - seconds[1]) / (many - few)
            calibration = {"seconds_per_step": each, "steps": int(self.budget / each)}
            self.write("calibration", calibration)
        return int(calibration["steps"])
