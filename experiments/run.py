"""One run of a grid: a task, a variant of its config, a seed, a part of the training sentences."""

import json
import os
import random
import re
import sys
from pathlib import Path
from threading import Thread
from typing import NamedTuple, Optional

from allennlp.commands.train import train_model
from allennlp.common import Params

from elmo_plugin.analysis import keep
from elmo_plugin.analysis.runs import write_object

CONFIGS = Path(__file__).resolve().parents[1] / "training_configs"
DONE = "grid.json"
"""The file that a run leaves last."""


class Task(NamedTuple):
    """What is trained on, small enough that a run takes some two minutes of one core.

    `separator` is what stands between two sentences, or texts, of the training file.
    """

    metric: str
    train: int
    dev: int
    epochs: int
    patience: int = 3
    separator: str = "\n\n"


TASKS = {
    "sst5": Task("accuracy", train=3000, dev=1101, epochs=6, separator="\n"),
    "wnut17_ner": Task("f1-measure-overall", train=3394, dev=1009, epochs=6),
    "ud_pos": Task("accuracy", train=2000, dev=1000, epochs=6),
    "conll2000_chunking": Task("f1-measure-overall", train=1500, dev=894, epochs=6),
    "ag_news": Task("accuracy", train=1000, dev=2000, epochs=15, patience=5, separator="\n"),
}


class Run(NamedTuple):
    """What tells a run from the others under the folder `runs`; `variant` is a file of training_configs/variants."""

    runs: Path
    task: str
    variant: str
    seed: int
    fraction: float = 1.0

    def path(self, suffix: str = "") -> Path:
        """The run's folder, or with a suffix the file beside it."""
        fraction = "" if self.fraction == 1 else f"-{self.fraction:g}"
        return self.runs / self.task / f"{self.variant}{fraction}-{self.seed}{suffix}"

    def score(self) -> Optional[float]:
        """The best score on the development set in percent, or `None` if the run has not come to its end."""
        if not (self.path() / DONE).exists():
            return None
        metrics = json.loads((self.path() / "metrics.json").read_text())
        return 100 * float(metrics[f"best_validation_{TASKS[self.task].metric}"])

    def size(self) -> int:
        """How many sentences it trains on, one at least."""
        return max(1, round(self.fraction * TASKS[self.task].train))

    def variant_file(self) -> Path:
        """The config that is run, but for what `config` adds."""
        return CONFIGS / f"variants/{self.variant}.jsonnet"


def config(run: Run) -> str:
    """The variant in jsonnet, with what is particular to a run; the environment variable TASK names the task.

    Runs of a task that have the same biLM share one sentence cache.
    """
    task, caches = TASKS[run.task], run.runs / "sentence_caches" / run.task
    return f"""\
(import {json.dumps(str(run.variant_file()))}) {{
  seed:: {run.seed},
  epochs:: {task.epochs},
  patience:: {task.patience},
  elmo+:: {{ sentence_cache: {json.dumps(f"{caches}-")} + std.md5(std.toString($.bilm.keys)) }},
  dataset_reader+: {{ max_instances: {task.train} }},
  validation_dataset_reader: $.dataset_reader {{ max_instances: {task.dev} }},
{fraction_config(run) if run.fraction < 1 else ""}}}
"""


def fraction_config(run: Run) -> str:
    """What a part of the training data changes: its file, and epochs of as many steps as with all of it."""
    return f"""\
  data+:: {{ train: {json.dumps(str(run.path(".train")))} }},
  data_loader+: {{ batches_per_epoch: std.ceil({TASKS[run.task].train} / $.batch_size) }},
"""


def write_sample(run: Run, source: Path) -> None:
    """Write the run's part of the first `train` sentences of `source`, drawn by its seed.

    All variants of a seed are given the same, and a smaller part lies in a larger one.
    """
    task = TASKS[run.task]
    text = re.sub(rb"(?m)^\s+$", b"", source.read_bytes()).decode()  # WNUT-17's blank lines hold a tab
    sentences = [part for part in text.split(task.separator) if part.strip()][: task.train]
    random.Random(run.seed).shuffle(sentences)
    run.path(".train").write_text(task.separator.join(sentences[: run.size()]) + task.separator, encoding="utf-8")


def train(run: Run) -> None:
    """Train a run and leave in its folder what AllenNLP leaves, but no weights, and in their place

    - what `elmo_plugin.analysis.keep` writes: `layer_weights.json` and, of a classifier, `confusion.json`;
    - `grid.json`, at last: `task`, `variant`, `seed`, `fraction`, and `metric`, whose best is the score.

    What another process has left there half done is thrown away.
    """
    folder, file = run.path(), run.path(".jsonnet")
    folder.parent.mkdir(parents=True, exist_ok=True)
    task = {"TASK": run.task}
    if run.fraction < 1:
        write_sample(run, Path(Params.from_file(run.variant_file(), ext_vars=task)["train_data_path"]))
    file.write_text(config(run), encoding="utf-8")
    train_model(Params.from_file(file, ext_vars=task), folder, force=True, file_friendly_logging=True)
    keep(folder)
    for file in [*folder.glob("*.th"), folder / "model.tar.gz"]:  # those of all runs together are gigabytes
        file.unlink()
    _, *values = run
    write_object(folder / DONE, {**dict(zip(run._fields[1:], values, strict=True)), "metric": TASKS[run.task].metric})


def end_with_parent() -> None:
    """End this process, at the latest, with the one that started it: that closes the pipe that is read here."""

    def wait() -> None:
        sys.stdin.read()
        os._exit(1)

    Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    end_with_parent()
    runs, task, variant, seed, fraction = sys.argv[1:]
    train(Run(Path(runs), task, variant, int(seed), float(fraction)))
