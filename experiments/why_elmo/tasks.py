"""Train a task on the frozen vectors of a tool, or fine-tune BERT on it."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from experiments.run import CONFIGS, Run, train
from experiments.run import TASKS as TASKS_OF_GRID

TASKS = ["ud_pos", "conll2000_chunking", "wnut17_ner", "litbank_events", "sst5"]
SEEDS = (1, 2, 3)
FRACTIONS = (1.0, 0.1)
FINE_TUNED = "bert_fine_tuned"
"""The name of BERT as it is usually used: all its weights are trained on the task."""


class ToolRun(Run):
    """A run of `experiments.grid` whose variant is a tool."""

    @property
    def tools(self) -> Path:
        """The folder of all that `experiments.why_elmo` writes."""
        return self.runs.parent

    def facts(self) -> Any:
        """Return what was measured when the vectors were written, or `None` before."""
        path = self.tools / f"vectors/{self.variant}/{self.task}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def is_possible(self) -> bool:
        """Return whether the vectors are written or, for fine-tuning, whether BERT is trained."""
        if self.variant == FINE_TUNED:
            return (self.tools / "bert/result.json").exists()
        return self.facts() is not None

    def variant_file(self) -> Path:
        """Return the config with the vectors of a file, or the one whose data BERT is fine-tuned on."""
        if self.variant == FINE_TUNED:
            return CONFIGS / "variants/without_elmo.jsonnet"
        return Path(__file__).with_name("vectors.jsonnet")

    def command(self) -> list[str]:
        """Return the command line of a process that trains the run."""
        values = [self.variant, self.task, str(self.seed), str(self.fraction)]
        return [sys.executable, "-m", "experiments.why_elmo", str(self.tools), "tasks", "--task", *values]


def train_task(run: ToolRun) -> None:
    """Train a run, and write how many sentences it was trained on in how much processor time."""
    start = time.process_time()
    if run.variant == FINE_TUNED:
        from experiments.why_elmo.fine_tune import fine_tune  # transformers takes seconds to import

        fine_tune(run, run.tools / "bert/model")
    else:
        os.environ["VECTORS"] = str(run.tools / "vectors" / run.variant)
        os.environ["VECTORS_DIM"] = str(run.facts()["dim"])
        train(run)
    epochs = json.loads((run.path() / "metrics.json").read_text())["epoch"] + 1
    speed = {"sentences": epochs * TASKS_OF_GRID[run.task].train, "cpu_seconds": time.process_time() - start}
    (run.path() / "speed.json").write_text(json.dumps(speed), encoding="utf-8")
