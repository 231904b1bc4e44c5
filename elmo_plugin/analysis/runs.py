"""Report on folders of `elmo-plugin train`: the scores of each run, and its place in an experiment."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple, Optional

from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.checkpoints import read_weights, unpacked
from elmo_plugin.common import extra, read_json
from elmo_plugin.models import PLACES

CONFIG, METRICS, GRID = "config.json", "metrics.json", "grid.json"
PERCENT = re.compile("accuracy|f1|fscore|precision|recall|[LU]AS")
"""Metrics from 0 to 1, which the report shows in percent."""
PLAIN_NAMES = {
    "accuracy3": "top-3 accuracy",
    "f1": "F1",
    "f1-measure-overall": "span F1",
    "fscore": "F1",
    "macro_f1": "macro F1",
    "precision-overall": "span precision",
    "recall-overall": "span recall",
}
ALLENNLPS_SEED = 133
"""The default of `pytorch_seed` (`allennlp.common.util.prepare_environment`)."""
LAYER_WEIGHTS = "layer_weights.json"
"""A file in a run's folder that replaces its weights: its layer weights by place, each with the keys of a mix."""
MIX = re.compile(
    r"(?P<name>(?P<where>.*?)((scalar_mix_|mixes\.)(?P<number>\d+)|(?P<place>input|output)_mix))\.scalar_parameters"
)


class LearnedMix(NamedTuple):
    """softmax(w), one number per layer, the token layer first; and γ."""

    weights: list[float]
    gamma: float


class Run(NamedTuple):
    """A finished run, as a row of the report. Runs that differ only in the seed are repetitions.

    # Parameters

    name : the path of its folder, relative to the folder that contains all runs
    task : the data set and the metric, with its unit
    data : the name of the data set
    axis : the metric and the data set, as the title of an axis
    share : the share of the training data, in percent
    score : the metric on the validation data at the best epoch
    time : the duration of training
    commit : the commit of the code that trained it, if the run's `grid.json` names one
    training, validation : the score on the training data and on the validation data after each epoch
    """

    name: str
    task: str
    data: str
    axis: str
    variant: str
    share: float
    seed: str
    score: float
    best_epoch: int
    time: str
    ended: date
    commit: str
    training: list[float]
    validation: list[float]
    metrics: dict[str, Any]
    mixes: dict[str, LearnedMix]


class Uncounted(NamedTuple):
    """A run that the report does not count, and why."""

    run: str
    reason: str


class Report(NamedTuple):
    """The runs that the report counts, the runs that it only lists, and the files written."""

    runs: list[Run]
    uncounted: list[Uncounted]
    files: list[Path]


def write_report(paths: Sequence[Path], output: Path, names: Optional[str] = None) -> Report:
    """Write a report about all runs in or below `paths`: `report.md` with SVG files, and `report.html` in one file.

    The same runs give the same bytes.

    # Parameters

    paths : serialization folders of `elmo-plugin train`, or folders that contain some at any depth
    output : the folder to write to
    names : where the end of a run's path has its TASK, VARIANT and SEED, such as `VARIANT/TASK_SEED`

    Raises `ConfigurationError` if no run is finished or the libraries of the `report` extra are not installed.
    """
    with extra("report"):
        from elmo_plugin.analysis.figure_pages import write_report_page
    runs, uncounted = find_runs(paths, names)
    return Report(runs, uncounted, write_report_page(output, paths, runs, uncounted))


def find_runs(paths: Sequence[Path], names: Optional[str] = None) -> tuple[list[Run], list[Uncounted]]:
    """Return the finished runs in or below the folders, and the runs that do not count.

    # Parameters

    names : `str`
        Where the end of a run's path has its TASK, VARIANT and SEED, such as `VARIANT/TASK_SEED`. By default this is
        `TASK/VARIANT-SEED` if SEED is the config's seed; otherwise the folder of the training data names the task, and
        the folder of the run names the variant.

    Raises `ConfigurationError` if no folder holds a finished run.
    """
    groups = {"TASK": "(?P<task>[^/]+)", "VARIANT": "(?P<variant>[^/]+)", "SEED": r"(?P<seed>\d+)"}
    parts = re.split("(TASK|VARIANT|SEED)", names or "TASK/VARIANT-SEED")
    if len(set(parts[1::2])) < len(parts[1::2]) or not {"TASK", "VARIANT"} <= set(parts):
        raise ConfigurationError(f"'names': expected TASK and VARIANT once each, and SEED at most once, got {names!r}")
    pattern = re.compile("(.*/)?" + "".join(groups.get(part) or re.escape(part) for part in parts))
    folders = {
        Path(folder)
        for path in paths
        for folder, _, files in os.walk(path.resolve())
        if not {CONFIG, METRICS}.isdisjoint(files)
    }
    root = os.path.commonpath([folder.parent for folder in folders]) if folders else ""
    runs: dict[tuple[Any, ...], Run] = {}
    uncounted = []
    for folder in Tqdm.tqdm(sorted(folders), desc="reading", unit="run"):
        name = folder.relative_to(root).as_posix()
        try:
            run = _read(folder, name, pattern, names is not None)
            first = runs.setdefault((run.task, run.variant, run.share, run.seed), run)
            if first is not run:
                raise ConfigurationError(f"'{first.name}' has the same task, variant, seed and fraction")
        # Damaged and edited files cause any of these errors.
        except (ConfigurationError, OSError, LookupError, TypeError, ValueError, AttributeError) as error:
            uncounted.append(Uncounted(name, str(error) if isinstance(error, ConfigurationError) else repr(error)))
    if not runs:
        got = "; ".join(f"{run.run}: {run.reason}" for run in uncounted[:5]) or "no run"
        raise ConfigurationError(f"{', '.join(map(str, paths))}: expected a finished run, got {got}")
    return list(runs.values()), uncounted


def _read(folder: Path, name: str, pattern: re.Pattern[str], must_match: bool) -> Run:
    config = read_json(folder / CONFIG)
    files = sorted(folder.glob("metrics_epoch_*.json"), key=lambda file: int(file.stem.rpartition("_")[2]))
    if not (folder / METRICS).exists():
        raise ConfigurationError(f"unfinished: no {METRICS}; epochs done: {len(files)}")
    metrics, epochs = read_json(folder / METRICS), [read_json(file) for file in files]
    signed = config["trainer"].get("validation_metric", "-loss")
    data = Path(str(config.get("train_data_path")))
    place = {
        "task": data.parent.name or data.stem,
        "variant": name,
        "seed": config.get("pytorch_seed", ALLENNLPS_SEED),
        "fraction": 1.0,
        "metric": signed[0] if isinstance(signed, list) else signed,
        "commit": "",
    }
    found = pattern.fullmatch(folder.as_posix())
    grid = read_json(folder / GRID) if (folder / GRID).exists() else {}
    if found and (must_match or found["seed"] == str(place["seed"])):
        place |= found.groupdict()
    elif must_match and not grid:
        raise ConfigurationError("the path does not have the form of 'names'")
    place |= grid
    metric = place["metric"].lstrip("+-")
    scale, unit = (100, ", %") if PERCENT.search(metric) else (1, "")
    score = scale * metrics.get(f"best_validation_{metric}", math.nan)
    if not math.isfinite(score):
        raise ConfigurationError(f"{METRICS} holds no number 'best_validation_{metric}'")
    measure = PLAIN_NAMES.get(metric) or metric.replace("_", " ").replace("-", " ")
    return Run(
        name=name,
        task=f"{place['task']}: {measure}{unit}",
        data=place["task"],
        axis=f"{measure[0].upper()}{measure[1:]} on {place['task']}{' (%)' * bool(unit)}",
        variant=str(place["variant"]),
        share=100 * place["fraction"],
        seed=str(place["seed"]),
        score=score,
        best_epoch=metrics["best_epoch"] + 1,
        time=str(metrics.get("training_duration", "")).split(".")[0],
        ended=date.fromtimestamp((folder / METRICS).stat().st_mtime),
        commit=str(place["commit"]),
        training=[scale * epoch.get(f"training_{metric}", math.nan) for epoch in epochs],
        validation=[scale * epoch.get(f"validation_{metric}", math.nan) for epoch in epochs],
        metrics=metrics,
        mixes=read_layer_weights(folder) or {},
    )


def read_layer_weights(folder: Path) -> Optional[dict[str, LearnedMix]]:
    """Return the scalar mixes of a run's best model by place, `input` and `output`, or `None` without weights.

    Reads `layer_weights.json` if the run has one, otherwise `best.th` or `model.tar.gz`. Raises `ConfigurationError`
    if the weights cannot be read.
    """
    best, archive = folder / "best.th", folder / "model.tar.gz"
    if (folder / LAYER_WEIGHTS).exists():
        return {place: LearnedMix(**mix) for place, mix in read_json(folder / LAYER_WEIGHTS).items()}
    if best.exists():
        weights = read_weights(best, best.name)
    elif archive.exists():
        with unpacked(archive, archive.name) as inside:
            weights = read_weights(inside / "weights.th", f"{archive.name}/weights.th")
    else:
        return None
    return learned_mixes(weights, read_json(folder / "config.json")["model"])


def learned_mixes(weights: Mapping[str, Tensor], model: Mapping[str, Any]) -> dict[str, LearnedMix]:
    """Return the scalar mixes in a state dict by their places, which the config of the model names.

    A second mix at the same place is returned by its full name.
    """
    found: dict[str, LearnedMix] = {}
    for key, parameters in weights.items():
        if mix := MIX.fullmatch(key):
            # The mixes of our models are in the order of `elmo_at`. Other models have ELMo at the input.
            ours = [place for place in PLACES if place in model.get("elmo_at", PLACES)]
            place = mix["place"] or (ours[int(mix["number"])] if mix["where"].startswith("text.") else "input")
            found[mix["name"] if place in found else place] = LearnedMix(
                parameters.float().softmax(dim=0).tolist(), float(weights[f"{mix['name']}.gamma"])
            )
    return found
