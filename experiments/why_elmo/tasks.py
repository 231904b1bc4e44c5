"""Train a task on the frozen vectors of a tool, or fine-tune BERT on it."""

import json
import os
import sys
import time
from pathlib import Path

from experiments.run import CONFIGS, TASKS, Run, train

POSSIBLE = [name for name, config in TASKS.items() if config.parent.name in ("tag", "classify")]
"""The tasks that tools can be compared on: those of taggers and classifiers."""
DEFAULT = ["ud_pos", "conll2000_chunking", "wnut17_ner", "litbank_events", "sst5"]
"""The tasks of the published comparison."""
SEEDS = (1, 2, 3)
FRACTIONS = (1.0, 0.1)
FINE_TUNED = "bert_fine_tuned"
"""The name of BERT as it is usually used: all its weights are trained on the task."""
TOGETHER = ("ours+fasttext", "english_tiny+fasttext")
"""The vectors of two tools, one after the other, as in the paper (GloVe and ELMo)."""


class ToolRun(Run):
    """A run of `experiments.grid` whose variant is a tool, or several with `+` between their names."""

    @property
    def tools(self) -> Path:
        """The folder of all that `experiments.why_elmo` writes."""
        return self.runs.parent

    def vectors(self) -> dict[str, Path]:
        """Return the file of vectors of each tool. A file with the suffix `.json` says what was measured with them."""
        return {tool: self.tools / f"vectors/{tool}/{self.task}.h5" for tool in self.variant.split("+")}

    def is_possible(self) -> bool:
        """Return whether the vectors are written or, for fine-tuning, whether BERT is trained."""
        if self.variant == FINE_TUNED:
            return (self.tools / "bert/result.json").exists()
        return all(file.with_suffix(".json").exists() for file in self.vectors().values())

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
        vectors = {
            tool: {"file": str(file), "dim": json.loads(file.with_suffix(".json").read_text())["dim"]}
            for tool, file in run.vectors().items()
        }
        os.environ["VECTORS"] = json.dumps(vectors)
        train(run)
    epochs = json.loads((run.path() / "metrics.json").read_text())["epoch"] + 1
    speed = {"sentences": epochs * run.facts().train_size(), "cpu_seconds": time.process_time() - start}
    (run.path() / "speed.json").write_text(json.dumps(speed), encoding="utf-8")
