"""Train one run of a grid: a task, a variant of its config, a seed and a fraction of the training data."""

import json
import os
import random
import re
import sys
from functools import cache
from pathlib import Path
from threading import Thread
from typing import NamedTuple, Optional

from _jsonnet import evaluate_snippet
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.plugins import import_plugins

from elmo_plugin.analysis import read_layer_weights
from elmo_plugin.common import atomic_file

CONFIGS = Path(__file__).resolve().parents[1] / "training_configs"
KEEP = "--keep-archives"
DONE = "grid.json"
"""The file that marks a finished run; it is written last."""
TASKS = {
    path.stem: path
    for kind in ("tag", "classify", "parse")
    for path in sorted((CONFIGS / kind).glob("*.jsonnet"))
    if path.stem != "demo"
}
"""The config of each task. A new config in one of the folders is a task, too. The demos are too small to compare on."""


class Task(NamedTuple):
    """What a config says about its task.

    `data` and `dev_data` are the paths of the data, in which `$NAME` stands for an environment variable. `train` and
    the fields after it are those of `grid` (training_configs/lib/experiment.libsonnet).
    """

    metric: str
    data: str
    dev_data: str
    train: Optional[int]
    dev: Optional[int]
    epochs: int
    patience: int
    separator: str

    def sentences(self) -> list[str]:
        """Return the sentences or texts of the training data that the task takes."""
        return self._first(self.data, self.train)

    def dev_sentences(self) -> list[str]:
        """Return the sentences or texts of the development set that the task takes."""
        return self._first(self.dev_data, self.dev)

    def write(self, sentences: list[str], file: Path) -> None:
        """Write sentences or texts in the form of the corpus."""
        file.write_text(self.separator.join(sentences) + self.separator, encoding="utf-8")

    def _first(self, data: str, number: Optional[int]) -> list[str]:
        source = Path(os.path.expandvars(data))
        text = re.sub(rb"(?m)^\s+$", b"", source.read_bytes()).decode()  # blank lines of WNUT-17 contain a tab
        return [part for part in text.split(self.separator) if part.strip()][:number]

    def train_size(self) -> int:
        """Return the number of sentences or texts that the task takes for training."""
        return self.train or len(self.sentences())


@cache
def read_tasks(*configs: Path) -> list[Task]:
    """Read tasks from their configs, for which no environment variable needs to be set.

    All are evaluated at once, because jsonnet takes as long to start and to read the library as to evaluate one.
    """
    files = [*configs, *(CONFIGS / "lib").glob("*.libsonnet")]
    variables = {name for file in files for name in re.findall(r"std\.extVar\('(\w+)'\)", file.read_text("utf-8"))}
    paths = "data: config.train_data_path, dev_data: config.validation_data_path"
    fields = f"config.grid {{ metric: config.trainer.validation_metric, {paths} }}"
    snippet = f"[{fields} for config in [{', '.join(f'import {json.dumps(str(config))}' for config in configs)}]]"
    found = json.loads(evaluate_snippet("tasks", snippet, ext_vars={name: f"${name}" for name in variables}))
    return [Task(**{**task, "metric": task["metric"].removeprefix("+")}) for task in found]


def read_task(config: Path) -> Task:
    """Read one task from its config."""
    (task,) = read_tasks(config)
    return task


class Run(NamedTuple):
    """A run in the folder `runs`; `task` is one of `TASKS`, and `variant` a file of training_configs/variants."""

    runs: Path
    task: str
    variant: str
    seed: int
    fraction: float = 1.0

    def path(self, suffix: str = "") -> Path:
        """Return the run's folder or, with a suffix, a file beside it."""
        fraction = "" if self.fraction == 1 else f"-{self.fraction:g}"
        return self.runs / self.task / f"{self.variant}{fraction}-{self.seed}{suffix}"

    def facts(self) -> Task:
        """Return what the config of the task says."""
        return read_task(TASKS[self.task])

    def score(self, part: str = "best_validation") -> Optional[float]:
        """Return the score of the best epoch in percent, or `None` without one.

        The score is on the development set, or for the part `test` on the second development set. An unfinished run has
        no score, and a run has none on a second development set that was added later.
        """
        if not (self.path() / DONE).exists():
            return None
        metrics = json.loads((self.path() / "metrics.json").read_text())
        score = metrics.get(f"{part}_{self.facts().metric}")
        return None if score is None else 100 * float(score)

    def second_dev(self) -> Path:
        """Return the path of the task's second development set, which need not exist."""
        return self.runs / f"{self.task}.dev2"

    def size(self) -> int:
        """Return the number of sentences to train on, at least one."""
        return max(1, round(self.fraction * self.facts().train_size()))

    def variant_file(self) -> Path:
        """Return the config of the variant, with which `config` extends the task's."""
        return CONFIGS / f"variants/{self.variant}.jsonnet"

    def command(self) -> list[str]:
        """Return the command line of a process that trains the run."""
        return [sys.executable, "-m", "experiments.run", *map(str, self)]


def config(run: Run) -> str:
    """Return the run's config in jsonnet: the task's, extended by the variant's, whose variable TASK is empty.

    Runs of a task with the same biLM and precision share a sentence cache. An epoch on a fraction of the data has as
    many steps as an epoch on all of it.
    """
    task, caches = run.facts(), run.runs / "sentence_caches" / run.task
    fraction = second = ""
    data, most_dev = {}, task.dev
    if run.fraction < 1:
        data["train"] = str(run.path(".train"))
        fraction = f"""\
  data_loader+: {{ batches_per_epoch: std.ceil({task.train_size()} / $.batch_size) }},
"""
    if run.second_dev().exists():  # read whole, by the reader that also reads the first one, which is cut in its file
        data["dev"], most_dev = str(run.path(".dev")), None
        second = f"""\
  test_data_path: {json.dumps(str(run.second_dev()))},
  evaluate_on_test: true,
"""
    return f"""\
(import {json.dumps(str(TASKS[run.task]))}) + (import {json.dumps(str(run.variant_file()))}) {{
  seed:: {run.seed},
  epochs:: {task.epochs},
  patience:: {task.patience},
  elmo+:: {{
    local precision = if std.objectHasAll($.elmo, 'precision') then '-' + $.elmo.precision else '',
    sentence_cache: {json.dumps(f"{caches}-")} + std.md5(std.toString($.bilm.keys)) + precision,
  }},
  data+:: {json.dumps(data)},
  dataset_reader+: {{ max_instances: {json.dumps(task.train)} }},
  validation_dataset_reader: $.dataset_reader {{ max_instances: {json.dumps(most_dev)} }},
{fraction}{second}}}
"""


def write_sample(run: Run) -> None:
    """Write a sample of the task's sentences: the run's fraction, drawn by its seed.

    All variants of a seed get the same sentences, and a larger fraction contains the smaller ones.
    """
    sentences = run.facts().sentences()
    random.Random(run.seed).shuffle(sentences)
    run.facts().write(sentences[: run.size()], run.path(".train"))


def prepare(run: Run) -> Params:
    """Write the run's config and, for a fraction of the data, its sample. Return the config."""
    file = run.path(".jsonnet")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(config(run), encoding="utf-8")
    if run.fraction < 1:
        write_sample(run)
    if run.second_dev().exists():
        run.facts().write(run.facts().dev_sentences(), run.path(".dev"))
    return Params.from_file(file, ext_vars={"TASK": ""})


def train(run: Run, keeps_archive: bool = False) -> None:
    """Train a run. Afterwards its folder has AllenNLP's files without the weights, or with the archive alone, and

    - `layer_weights.json`, which reports read instead of the weights;
    - `grid.json`, written last: `task`, `variant`, `seed`, `fraction` and `metric`, whose best value is the score.

    Files of an unfinished run are deleted first.
    """
    folder = run.path()
    train_model(prepare(run), folder, force=True, file_friendly_logging=True)
    mixes = {place: mix._asdict() for place, mix in (read_layer_weights(folder) or {}).items()}
    (folder / "layer_weights.json").write_text(json.dumps(mixes), encoding="utf-8")
    for file in [*folder.glob("*.th"), *([] if keeps_archive else [folder / "model.tar.gz"])]:
        file.unlink()  # the weights of all runs are gigabytes
    _, *values = run
    done = {**dict(zip(run._fields[1:], values, strict=True)), "metric": run.facts().metric}
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
    runs, task, variant, seed, fraction, *options = sys.argv[1:]
    train(Run(Path(runs), task, variant, int(seed), float(fraction)), keeps_archive=KEEP in options)
