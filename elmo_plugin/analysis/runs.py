"""Read folders of `allennlp train`: the scores of each run, and its place in an experiment."""

import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Optional

from allennlp.common.checks import ConfigurationError

from elmo_plugin.common import atomic_file, read_json

CONFIG, METRICS, GRID = "config.json", "metrics.json", "grid.json"
EPOCH = re.compile(r"metrics_epoch_(\d+)\.json")
PLAIN_NAMES = {"f1-measure-overall": "span F1", "macro_f1": "macro F1"}
ALLENNLPS_SEED = 133
"""The default of `pytorch_seed` (`allennlp.common.util.prepare_environment`)."""
ELMO_TYPES = ("elmo", "elmo_token_embedder")
"""Token embedders that are ELMo: ours and AllenNLP's."""


class Task(NamedTuple):
    """A data set and the metric for comparing its runs. The metric has AllenNLP's name, without the sign."""

    name: str
    metric: str
    higher_is_better: bool = True

    @property
    def scale(self) -> int:
        """Return 100 for metrics from 0 to 1, which the report shows in percent, and 1 for others."""
        return 100 if re.search("accuracy|f1|fscore|precision|recall|[LU]AS", self.metric) else 1

    @property
    def label(self) -> str:
        """Return the usual name of the metric, with its unit."""
        return PLAIN_NAMES.get(self.metric, self.metric) + (", %" if self.scale == 100 else "")

    def of(self, metrics: dict[str, Any], part: str) -> float:
        """Return the score in AllenNLP's metrics for a `part` such as `best_validation`, or NaN if there is none."""
        return self.scale * number_of(metrics, f"{part}_{self.metric}")


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run.

    # Parameters

    folder : `Path`
    name : `str`
        The path of the folder, relative to the folder that the user named.
    task, variant, seed, fraction
        The run's place in an experiment. Runs that differ only in the seed are repetitions; the seed is `None` if the
        run set none. `fraction` is the share of the training data, at most 1.
    config : `dict[str, Any]`
    metrics : `dict[str, Any]`
        AllenNLP's `metrics.json`.
    epochs : `dict[int, dict[str, Any]]`
        AllenNLP's metrics after each epoch; the first epoch is 1.
    commit : `str`
        The commit of the code that trained it, if the run's `grid.json` names one.
    """

    folder: Path
    name: str
    task: Task
    variant: str
    seed: Optional[int]
    fraction: float
    config: dict[str, Any]
    metrics: dict[str, Any]
    epochs: dict[int, dict[str, Any]]
    commit: str = ""

    @property
    def score(self) -> float:
        """Return the task's metric on the validation data at the best epoch."""
        return self.task.of(self.metrics, "best_validation")

    @property
    def is_pretraining(self) -> bool:
        """Return whether the run trained a biLM."""
        return self.config["model"].get("type") == "bilm"

    @property
    def has_elmo(self) -> bool:
        """Return whether the model contains ELMo."""
        return _names_elmo(self.config["model"])


class Uncounted(NamedTuple):
    """A run that the report does not count, and why."""

    name: str
    reason: str


def find_runs(paths: Sequence[Path]) -> tuple[list[Run], list[Uncounted]]:
    """Return the finished runs in or below the folders, and the runs that do not count.

    Raises `ConfigurationError` if a path is not a folder, or if no folder holds a finished run.
    """
    for path in paths:
        if not path.is_dir():
            raise ConfigurationError(f"'{path}': expected a folder with runs of `allennlp train`, got no folder")
    runs: dict[tuple[Any, ...], Run] = {}
    uncounted = []
    for folder, name in _names(paths).items():
        try:
            run = _read(folder, name)
            first = runs.setdefault((run.task, run.variant, run.seed, run.fraction), run)
            if first is not run:
                raise ConfigurationError(f"'{first.name}' has the same task, variant, seed and fraction")
        except ConfigurationError as error:
            uncounted.append(Uncounted(name, str(error)))
    if not runs:
        got = "; ".join(f"{run.name}: {run.reason}" for run in uncounted[:5]) or "no run"
        raise ConfigurationError(f"{', '.join(map(str, paths))}: expected a finished run, got {got}")
    return list(runs.values()), uncounted


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file. Raises `ConfigurationError` naming the file if it does not hold one."""
    try:
        value = read_json(path)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path.name} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(value, dict):
        raise ConfigurationError(f"{path.name}: expected a JSON object, got a {type(value).__name__}")
    return value


def number_of(metrics: dict[str, Any], key: str) -> float:
    """Return a metric as a number, or NaN if it is missing, not a number, or too large for a float."""
    value = metrics.get(key)
    try:
        return float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return math.nan


def write_object(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object to a file, atomically."""
    with atomic_file(path) as partial:
        partial.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _names(paths: Sequence[Path]) -> dict[Path, str]:
    """Map each run folder to its path relative to the given path, or if these repeat, to the common parent."""
    found = {folder: path for path in map(Path.resolve, paths) for folder in _run_folders(path)}
    folders = sorted(found)
    names = [
        folder.name if folder == found[folder] else folder.relative_to(found[folder]).as_posix() for folder in folders
    ]
    if len(set(names)) < len(names):
        common = os.path.commonpath([folder.parent for folder in folders])
        names = [folder.relative_to(common).as_posix() for folder in folders]
    return dict(zip(folders, names, strict=True))


def _run_folders(path: Path) -> Iterator[Path]:
    """Yield the folder itself if it is a run, else the runs below it."""
    for folder, below, files in os.walk(path):
        if any(name in (CONFIG, METRICS) or EPOCH.fullmatch(name) for name in files):
            below.clear()
            yield Path(folder)


def _read(folder: Path, name: str) -> Run:
    config = read_object(folder / CONFIG)
    if not isinstance(config.get("model"), dict):
        raise ConfigurationError(f"{CONFIG} holds no 'model'")
    seed, signed = _seed(config), _validation_metric(config)
    numbers = sorted(int(found[1]) for path in folder.iterdir() if (found := EPOCH.fullmatch(path.name)))
    epochs = {number + 1: read_object(folder / f"metrics_epoch_{number}.json") for number in numbers}
    if not (folder / METRICS).exists():
        raise ConfigurationError(f"unfinished: no {METRICS}; epochs done: {len(epochs)}")
    by_name = {**_place_by_name(folder, name, config, seed), "seed": seed, "fraction": 1.0, "commit": ""}
    place = {**by_name, "metric": signed, **_place_in_grid(folder)}
    bare = place["metric"].lstrip("+-")
    # The sign says whether lower is better; without a sign, the name of the metric does.
    signs = (place["metric"], signed)
    lower = f"-{bare}" in signs or (f"+{bare}" not in signs and bool(re.search("loss|perplexity", bare)))
    task = Task(place["task"], bare, not lower)
    where = (place["variant"], place["seed"], float(place["fraction"]))
    run = Run(folder, name, task, *where, config, read_object(folder / METRICS), epochs, place["commit"])
    if not math.isfinite(run.score):
        raise ConfigurationError(f"{METRICS} holds no number 'best_validation_{bare}'")
    return run


def _seed(config: dict[str, Any]) -> Optional[int]:
    """Return the seed of a config as AllenNLP reads it: a string is a number, too, and null means no seed."""
    seed = config.get("pytorch_seed", ALLENNLPS_SEED)
    try:
        return None if seed is None else int(seed)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(f"{CONFIG}: 'pytorch_seed': expected a whole number, got {seed!r}") from error


def _validation_metric(config: dict[str, Any]) -> str:
    """Return the validation metric of a config with its sign; of several metrics, the first one."""
    if not isinstance(trainer := config.get("trainer", {}), dict):
        raise ConfigurationError(f"{CONFIG}: 'trainer': expected an object, got {trainer!r}")
    metric = trainer.get("validation_metric", "-loss")
    names = metric if isinstance(metric, list) else [metric]
    if not names or not all(isinstance(name, str) for name in names):
        expected = "expected the name of a metric, or a list of names"
        raise ConfigurationError(f"{CONFIG}: 'trainer.validation_metric': {expected}, got {metric!r}")
    return str(names[0])


def _place_in_grid(folder: Path) -> dict[str, Any]:
    """Return the content of a run's `grid.json`, if the driver of a grid wrote one. Unknown keys are not checked."""
    if not (folder / GRID).exists():
        return {}
    place = read_object(folder / GRID)
    kinds: dict[str, Any] = {
        "task": (str, "a string"),
        "variant": (str, "a string"),
        "seed": (int, "a whole number"),
        "fraction": ((int, float), "a number"),
        "metric": (str, "a string"),
        "commit": (str, "a string"),
    }
    for key, (kind, name) in kinds.items():
        if key in place and (not isinstance(place[key], kind) or isinstance(place[key], bool)):
            raise ConfigurationError(f"{GRID}: '{key}': expected {name}, got {place[key]!r}")
    if not 0 < place.get("fraction", 1) <= 1:
        raise ConfigurationError(f"{GRID}: 'fraction': expected more than 0 and at most 1, got {place['fraction']!r}")
    return place


def _place_by_name(folder: Path, name: str, config: dict[str, Any], seed: Optional[int]) -> dict[str, Any]:
    """Return the task and variant of a folder TASK/VARIANT-SEED. For another folder, the task is the data's folder."""
    stem, _, number = folder.name.rpartition("-")
    if stem and number == str(seed):
        return {"task": folder.parent.name, "variant": stem}
    data = Path(str(config.get("train_data_path")))
    return {"task": data.parent.name or folder.parent.name, "variant": name}


def _names_elmo(value: Any) -> bool:
    """Return whether a block of a config has the key or the type `elmo` at any depth."""
    if isinstance(value, dict):
        is_elmo = value.get("elmo") is not None or value.get("type") in ELMO_TYPES
        return is_elmo or any(map(_names_elmo, value.values()))
    return isinstance(value, list) and any(map(_names_elmo, value))
