"""Folders of `allennlp train` → what was reached in them, and which experiment each is a part of."""

import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from allennlp.common.checks import ConfigurationError

from elmo_plugin.atomic_write import atomic_file

CONFIG, METRICS, GRID = "config.json", "metrics.json", "grid.json"
EPOCH = re.compile(r"metrics_epoch_(\d+)\.json")
PLAIN_NAMES = {"f1-measure-overall": "span F1", "macro_f1": "macro F1"}
ALLENNLPS_SEED = 133
"""The `pytorch_seed` of a config that names none (`allennlp.common.util.prepare_environment`)."""


class Task(NamedTuple):
    """What runs are compared on: a task and its metric, under AllenNLP's name without a sign."""

    name: str
    metric: str
    higher_is_better: bool = True

    @property
    def scale(self) -> int:
        """100 for a metric that is a share, which is told in percent."""
        return 100 if re.search("accuracy|f1|fscore|precision|recall", self.metric) else 1

    @property
    def label(self) -> str:
        """The metric and its unit, for people."""
        return PLAIN_NAMES.get(self.metric, self.metric) + (", %" if self.scale == 100 else "")

    def of(self, metrics: dict[str, Any], part: str) -> float:
        """The score in AllenNLP's metrics of a `part`, such as `best_validation`; NaN where there is none."""
        value = metrics.get(f"{part}_{self.metric}")
        return self.scale * float(value) if isinstance(value, int | float) else math.nan


@dataclass(frozen=True, eq=False)
class Run:
    """A run that has come to its end.

    # Parameters

    folder : `Path`
    name : `str`
        The folder below the one that was asked for.
    task, variant, seed, fraction
        Its place in an experiment: runs that differ in the seed alone are repetitions, and `fraction` is the part of
        the training data, up to 1.
    config : `dict[str, Any]`
    metrics : `dict[str, Any]`
        AllenNLP's, of the end.
    epochs : `dict[int, dict[str, Any]]`
        AllenNLP's, of the end of each epoch, the first of which is 1.
    """

    folder: Path
    name: str
    task: Task
    variant: str
    seed: int
    fraction: float
    config: dict[str, Any]
    metrics: dict[str, Any]
    epochs: dict[int, dict[str, Any]]

    @property
    def score(self) -> float:
        """The task's metric on the validation data at the best epoch."""
        return self.task.of(self.metrics, "best_validation")

    @property
    def is_pretraining(self) -> bool:
        """Whether a biLM was trained, and not a task."""
        return self.config["model"].get("type") == "bilm"

    @property
    def has_elmo(self) -> bool:
        """Whether there is ELMo in the model."""
        return _names_elmo(self.config["model"])


class Uncounted(NamedTuple):
    """A run that is left out, and why."""

    name: str
    reason: str


def find_runs(paths: Sequence[Path]) -> tuple[list[Run], list[Uncounted]]:
    """The finished runs in folders, which are runs or hold runs at any depth, and those that are left out.

    Raises `ConfigurationError` if a path is no folder, or if there is no finished run in any of them.
    """
    for path in paths:
        if not path.is_dir():
            raise ConfigurationError(
                f"'{path}' is no folder; wanted runs of `allennlp train`, or folders that hold some"
            )
    runs: dict[tuple[Any, ...], Run] = {}
    uncounted = []
    for folder, name in _names(paths).items():
        try:
            run = _read(folder, name)
            first = runs.setdefault((run.task, run.variant, run.seed, run.fraction), run)
            if first is not run:
                raise ConfigurationError(f"task, variant, seed and fraction are those of `{first.name}`")
        except ConfigurationError as error:
            uncounted.append(Uncounted(name, str(error)))
    if not runs:
        found = "; ".join(f"{run.name}: {run.reason}" for run in uncounted[:5]) or "no run at all"
        raise ConfigurationError(f"no finished run in {', '.join(map(str, paths))}; found {found}")
    return list(runs.values()), uncounted


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises `ConfigurationError` that names the file if there is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path.name} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(value, dict):
        raise ConfigurationError(f"{path.name} holds a {type(value).__name__}; wanted an object")
    return value


def write_object(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object to a file, atomically."""
    with atomic_file(path) as partial:
        partial.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _names(paths: Sequence[Path]) -> dict[Path, str]:
    """The folders of all runs with the shortest names that tell them apart: below what was asked for, or in common."""
    found = {folder: path for path in map(Path.resolve, paths) for folder in _run_folders(path)}
    folders = sorted(found)
    names = [f.name if f == found[f] else f.relative_to(found[f]).as_posix() for f in folders]
    if len(set(names)) < len(names):
        common = os.path.commonpath([folder.parent for folder in folders])
        names = [folder.relative_to(common).as_posix() for folder in folders]
    return dict(zip(folders, names, strict=True))


def _run_folders(path: Path) -> Iterator[Path]:
    """A folder if it is a run, else the runs below it."""
    for folder, below, files in os.walk(path):
        if any(name in (CONFIG, METRICS) or EPOCH.fullmatch(name) for name in files):
            below.clear()
            yield Path(folder)


def _read(folder: Path, name: str) -> Run:
    config = read_object(folder / CONFIG)
    if not isinstance(config.get("model"), dict):
        raise ConfigurationError(f"{CONFIG} holds no 'model'")
    numbers = sorted(int(found[1]) for path in folder.iterdir() if (found := EPOCH.fullmatch(path.name)))
    epochs = {number + 1: read_object(folder / f"metrics_epoch_{number}.json") for number in numbers}
    if not (folder / METRICS).exists():
        raise ConfigurationError(f"unfinished: no {METRICS}; epochs done: {len(epochs)}")
    place = {**_place_by_name(folder, name, config), **_place_in_grid(folder)}
    task = _task(place["task"], place["metric"], config)
    run = Run(
        folder,
        name,
        task,
        place["variant"],
        place["seed"],
        float(place["fraction"]),
        config,
        read_object(folder / METRICS),
        epochs,
    )
    if not math.isfinite(run.score):
        raise ConfigurationError(f"{METRICS} holds no number 'best_validation_{task.metric}'")
    return run


def _place_in_grid(folder: Path) -> dict[str, Any]:
    """What the driver of a grid says of a run, if one started it: task, variant, seed, fraction, metric."""
    if not (folder / GRID).exists():
        return {}
    place = read_object(folder / GRID)
    wanted: dict[str, Any] = {"task": str, "variant": str, "seed": int, "fraction": (int, float), "metric": str}
    for key, kind in wanted.items():
        if key in place and (not isinstance(place[key], kind) or isinstance(place[key], bool)):
            name = "a string" if kind is str else "a whole number" if kind is int else "a number"
            raise ConfigurationError(f"{GRID}: '{key}' is {place[key]!r}; wanted {name}")
    if not 0 < place.get("fraction", 1) <= 1:
        raise ConfigurationError(f"{GRID}: 'fraction' is {place['fraction']!r}; wanted more than 0 and at most 1")
    return place


def _place_by_name(folder: Path, name: str, config: dict[str, Any]) -> dict[str, Any]:
    """The same as a folder's name and its config tell: TASK/VARIANT-SEED, or the folder of the data as the task."""
    seed = config.get("pytorch_seed", ALLENNLPS_SEED)
    metric = config.get("trainer", {}).get("validation_metric", "-loss")
    first_metric = metric if isinstance(metric, str) else metric[0]
    stem, _, number = folder.name.rpartition("-")
    if stem and number == str(seed):
        task, variant = folder.parent.name, stem
    else:
        task, variant = Path(str(config.get("train_data_path"))).parent.name or folder.parent.name, name
    return {"task": task, "variant": variant, "seed": seed, "fraction": 1.0, "metric": first_metric}


def _task(name: str, metric: str, config: dict[str, Any]) -> Task:
    """A metric is the better the higher it is, unless it has a minus or its name says otherwise."""
    bare = metric.lstrip("+-")
    signed = config.get("trainer", {}).get("validation_metric")
    lower = f"-{bare}" in (metric, signed) or (signed != f"+{bare}" and bool(re.search("loss|perplexity", bare)))
    return Task(name, bare, not lower)


def _names_elmo(value: Any) -> bool:
    """Whether something is called `elmo` anywhere in a block of a config."""
    if isinstance(value, dict):
        return value.get("elmo") is not None or any(map(_names_elmo, value.values()))
    return isinstance(value, list) and any(map(_names_elmo, value))
