"""Train one run of a grid: a task, a variant of its config, a seed and a fraction of the training data."""

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
from allennlp.common.plugins import import_plugins

from elmo_plugin.analysis import read_layer_weights
from elmo_plugin.common import atomic_file

CONFIGS = Path(__file__).resolve().parents[1] / "training_configs"
DONE = "grid.json"
"""The file that marks a finished run; it is written last."""


class Task(NamedTuple):
    """The sizes of a task. For the first five tasks, a run takes about two minutes on one core.

    `separator` separates the sentences or texts of the training file.
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
    "litbank_events": Task("f1-measure-EVENT", train=5263, dev=935, epochs=4),
    "ud_parsing": Task("LAS", train=2000, dev=2001, epochs=15),
}


class Run(NamedTuple):
    """A run in the folder `runs`; `variant` is a file of training_configs/variants."""

    runs: Path
    task: str
    variant: str
    seed: int
    fraction: float = 1.0

    def path(self, suffix: str = "") -> Path:
        """Return the run's folder or, with a suffix, a file beside it."""
        fraction = "" if self.fraction == 1 else f"-{self.fraction:g}"
        return self.runs / self.task / f"{self.variant}{fraction}-{self.seed}{suffix}"

    def score(self, part: str = "best_validation") -> Optional[float]:
        """Return the score of the best epoch in percent, or `None` without one.

        The score is on the development set, or for the part `test` on the second development set. An unfinished run has
        no score, and a run has none on a second development set that was added later.
        """
        if not (self.path() / DONE).exists():
            return None
        metrics = json.loads((self.path() / "metrics.json").read_text())
        score = metrics.get(f"{part}_{TASKS[self.task].metric}")
        return None if score is None else 100 * float(score)

    def second_dev(self) -> Path:
        """Return the path of the task's second development set, which need not exist."""
        return self.runs / f"{self.task}.dev2"

    def size(self) -> int:
        """Return the number of sentences to train on, at least one."""
        return max(1, round(self.fraction * TASKS[self.task].train))

    def variant_file(self) -> Path:
        """Return the config of the variant, which `config` extends."""
        return CONFIGS / f"variants/{self.variant}.jsonnet"

    def command(self) -> list[str]:
        """Return the command line of a process that trains the run."""
        return [sys.executable, "-m", "experiments.run", *map(str, self)]


def config(run: Run) -> str:
    """Return the run's config in jsonnet, which extends the variant's. The external variable TASK names the task.

    Runs of a task with the same biLM and precision share a sentence cache. An epoch on a fraction of the data has as
    many steps as an epoch on all of it.
    """
    task, caches = TASKS[run.task], run.runs / "sentence_caches" / run.task
    fraction = f"""\
  data+:: {{ train: {json.dumps(str(run.path(".train")))} }},
  data_loader+: {{ batches_per_epoch: std.ceil({task.train} / $.batch_size) }},
"""
    second = f"""\
  test_data_path: {json.dumps(str(run.second_dev()))},
  evaluate_on_test: true,
"""
    return f"""\
(import {json.dumps(str(run.variant_file()))}) {{
  seed:: {run.seed},
  epochs:: {task.epochs},
  patience:: {task.patience},
  elmo+:: {{
    local precision = if std.objectHasAll($.elmo, 'precision') then '-' + $.elmo.precision else '',
    sentence_cache: {json.dumps(f"{caches}-")} + std.md5(std.toString($.bilm.keys)) + precision,
  }},
  dataset_reader+: {{ max_instances: {task.train} }},
  validation_dataset_reader: $.dataset_reader {{ max_instances: {task.dev} }},
{fraction if run.fraction < 1 else ""}{second if run.second_dev().exists() else ""}}}
"""


def write_sample(run: Run, source: Path) -> None:
    """Write a sample of the first `train` sentences of `source`: the run's fraction, drawn by its seed.

    All variants of a seed get the same sentences, and a larger fraction contains the smaller ones.
    """
    task = TASKS[run.task]
    text = re.sub(rb"(?m)^\s+$", b"", source.read_bytes()).decode()  # blank lines of WNUT-17 contain a tab
    sentences = [part for part in text.split(task.separator) if part.strip()][: task.train]
    random.Random(run.seed).shuffle(sentences)
    run.path(".train").write_text(task.separator.join(sentences[: run.size()]) + task.separator, encoding="utf-8")


def train(run: Run) -> None:
    """Train a run. Afterwards its folder has AllenNLP's files without the weights, and

    - `layer_weights.json`, which reports read instead of the weights;
    - `grid.json`, written last: `task`, `variant`, `seed`, `fraction` and `metric`, whose best value is the score.

    Files of an unfinished run are deleted first.
    """
    folder, file = run.path(), run.path(".jsonnet")
    folder.parent.mkdir(parents=True, exist_ok=True)
    task = {"TASK": run.task}
    if run.fraction < 1:
        write_sample(run, Path(Params.from_file(run.variant_file(), ext_vars=task)["train_data_path"]))
    file.write_text(config(run), encoding="utf-8")
    train_model(Params.from_file(file, ext_vars=task), folder, force=True, file_friendly_logging=True)
    mixes = {place: mix._asdict() for place, mix in (read_layer_weights(folder) or {}).items()}
    (folder / "layer_weights.json").write_text(json.dumps(mixes), encoding="utf-8")
    for file in [*folder.glob("*.th"), folder / "model.tar.gz"]:  # the weights of all runs are gigabytes
        file.unlink()
    _, *values = run
    done = {**dict(zip(run._fields[1:], values, strict=True)), "metric": TASKS[run.task].metric}
    with atomic_file(folder / DONE) as partial:
        partial.write_text(json.dumps(done), encoding="utf-8")


def end_with_parent() -> None:
    """End this process when its parent ends. The parent holds the other end of the pipe that is standard input."""

    def wait() -> None:
        sys.stdin.read()
        os._exit(1)

    Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    end_with_parent()
    import_plugins()  # the models of allennlp-models
    runs, task, variant, seed, fraction = sys.argv[1:]
    train(Run(Path(runs), task, variant, int(seed), float(fraction)))
