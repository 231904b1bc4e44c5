"""Read folders of `elmo-plugin train`: the scores of each run, and its place in an experiment."""

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Optional

from allennlp.common.checks import ConfigurationError

from elmo_plugin.common import read_json

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
    def title(self) -> str:
        """Return the name of the data set and the usual name of the metric, with its unit."""
        return f"{self.name}: {PLAIN_NAMES.get(self.metric, self.metric)}{', %' if self.scale == 100 else ''}"

    def of(self, metrics: dict[str, Any], part: str) -> float:
        """Return the score in AllenNLP's metrics for a `part` such as `best_validation`, or NaN if there is none."""
        return self.scale * number_of(metrics, f"{part}_{self.metric}")


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run.

    # Parameters

    folder : `Path`
    name : `str`
        The path of the folder, relative to the folder that contains all runs.
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
    commit: str

    @property
    def score(self) -> float:
        """Return the task's metric on the validation data at the best epoch."""
        return self.task.of(self.metrics, "best_validation")

    @property
    def best_epoch(self) -> Optional[int]:
        """Return the epoch whose model was kept; the first epoch is 1."""
        best = self.metrics.get("best_epoch")
        return best + 1 if isinstance(best, int) else None

    @property
    def is_pretraining(self) -> bool:
        """Return whether the run trained a biLM."""
        return self.config["model"].get("type") == "bilm"

    @property
    def has_elmo(self) -> bool:
        """Return whether the model contains ELMo."""
        return _names_elmo(self.config["model"])


class Unread(NamedTuple):
    """A run that the report does not count, or does not read completely, and why."""

    name: str
    reason: str


def find_runs(paths: Sequence[Path], names: Optional[str] = None) -> tuple[list[Run], list[Unread]]:
    """Return the finished runs in or below the folders, and the runs that do not count.

    # Parameters

    names : `str`
        Where the end of a run's path has its TASK, VARIANT and SEED, such as `VARIANT/TASK_SEED`. By default this is
        `TASK/VARIANT-SEED` if SEED is the config's seed; otherwise the folder of the training data names the task, and
        the folder of the run names the variant.

    Raises `ConfigurationError` if a path is not a folder, or if no folder holds a finished run.
    """
    pattern = None if names is None else _path_pattern(names)
    for path in paths:
        if not path.is_dir():
            raise ConfigurationError(f"'{path}': expected a folder with runs of `elmo-plugin train`, got no folder")
    runs: dict[tuple[Any, ...], Run] = {}
    uncounted = []
    for name, folder in _run_folders(paths).items():
        try:
            run = _read(folder, name, pattern)
            first = runs.setdefault((run.task, run.variant, run.seed, run.fraction), run)
            if first is not run:
                raise ConfigurationError(f"'{first.name}' has the same task, variant, seed and fraction")
        except ConfigurationError as error:
            uncounted.append(Unread(name, str(error)))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            uncounted.append(Unread(name, f"{CONFIG} or {GRID} is not as expected: {error!r}"))
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
    """Return a metric as a number, or NaN if it is missing or not a number."""
    value = metrics.get(key)
    return float(value) if isinstance(value, int | float) else math.nan


def _run_folders(paths: Sequence[Path]) -> dict[str, Path]:
    """Map the name of each run to its folder. The name is the path below the folder that contains all `paths`."""
    found, roots = set(), set()
    for path in map(Path.resolve, paths):
        for folder, below, files in os.walk(path):
            if any(name in (CONFIG, METRICS) or EPOCH.fullmatch(name) for name in files):
                below.clear()
                found.add(Path(folder))
        roots.add(path.parent if path in found else path)
    root = os.path.commonpath(roots)
    return {folder.relative_to(root).as_posix(): folder for folder in sorted(found)}


def _read(folder: Path, name: str, pattern: Optional[re.Pattern[str]]) -> Run:
    config = read_object(folder / CONFIG)
    if not isinstance(config.get("model"), dict):
        raise ConfigurationError(f"{CONFIG} holds no 'model'")
    numbers = sorted(int(found[1]) for path in folder.iterdir() if (found := EPOCH.fullmatch(path.name)))
    epochs = {number + 1: read_object(folder / f"metrics_epoch_{number}.json") for number in numbers}
    if not (folder / METRICS).exists():
        raise ConfigurationError(f"unfinished: no {METRICS}; epochs done: {len(epochs)}")
    signed = config.get("trainer", {}).get("validation_metric", "-loss")
    signed = signed[0] if isinstance(signed, list) else signed
    place = {
        "task": Path(str(config.get("train_data_path"))).parent.name or folder.parent.name,
        "variant": name,
        "seed": config.get("pytorch_seed", ALLENNLPS_SEED),
        "fraction": 1.0,
        "metric": signed,
        "commit": "",
    }
    stem, _, number = folder.name.rpartition("-")
    if pattern is None and stem and number == str(place["seed"]):
        place |= {"task": folder.parent.name, "variant": stem}
    elif pattern is not None and (found := pattern.fullmatch(folder.as_posix())):
        place |= found.groupdict()
    elif pattern is not None and not (folder / GRID).exists():
        raise ConfigurationError("the path does not have the form of 'names'")
    if (folder / GRID).exists():
        place |= read_object(folder / GRID)
    if not 0 < place["fraction"] <= 1:
        raise ConfigurationError(f"{GRID}: 'fraction': expected more than 0 and at most 1, got {place['fraction']!r}")
    metric = place["metric"].lstrip("+-")
    task = Task(str(place["task"]), metric, f"-{metric}" not in (place["metric"], signed))
    seed = None if place["seed"] is None else int(place["seed"])  # AllenNLP also takes a string
    where = (str(place["variant"]), seed, float(place["fraction"]))
    run = Run(folder, name, task, *where, config, read_object(folder / METRICS), epochs, str(place["commit"]))
    if not math.isfinite(run.score):
        raise ConfigurationError(f"{METRICS} holds no number 'best_validation_{metric}'")
    return run


def _path_pattern(names: str) -> re.Pattern[str]:
    """Return the pattern for the end of a path in which TASK, VARIANT and SEED stand for names and a number."""
    groups = {"TASK": "(?P<task>[^/]+)", "VARIANT": "(?P<variant>[^/]+)", "SEED": r"(?P<seed>\d+)"}
    parts = re.split("(TASK|VARIANT|SEED)", names)
    if len(set(parts[1::2])) < len(parts[1::2]) or not {"TASK", "VARIANT"} <= set(parts):
        raise ConfigurationError(f"'names': expected TASK and VARIANT once each, and SEED at most once, got {names!r}")
    return re.compile("(.*/)?" + "".join(groups.get(part) or re.escape(part) for part in parts))


def _names_elmo(value: Any) -> bool:
    """Return whether a block of a config has the key or the type `elmo` at any depth."""
    if isinstance(value, dict):
        is_elmo = value.get("elmo") is not None or value.get("type") in ELMO_TYPES
        return is_elmo or any(map(_names_elmo, value.values()))
    return isinstance(value, list) and any(map(_names_elmo, value))
