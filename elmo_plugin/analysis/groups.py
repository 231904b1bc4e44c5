"""Runs that differ in the seed alone, and what they reached together."""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import mean, stdev
from typing import NamedTuple

from elmo_plugin.analysis.runs import Run, Task


class Summary(NamedTuple):
    """The mean over seeds, their standard deviation (of n − 1; NaN of one seed), and their number."""

    mean: float
    deviation: float
    seeds: int

    def text(self, digits: int = 2) -> str:
        """`38.15 ± 1.57`, or `38.15` of one seed."""
        deviation = "" if math.isnan(self.deviation) else f" ± {self.deviation:.{digits}f}"
        return f"{self.mean:.{digits}f}{deviation}"


def summary(values: Sequence[float]) -> Summary:
    """Of one number or more."""
    return Summary(mean(values), stdev(values) if len(values) > 1 else math.nan, len(values))


class Group(NamedTuple):
    """The seeds of one variant of a task, on one part of its training data."""

    task: Task
    variant: str
    fraction: float
    runs: list[Run]

    def summary(self, of: Callable[[Run], float] = lambda run: run.score) -> Summary:
        """Of the score, or of another number of each run."""
        return summary([of(run) for run in self.runs])

    def mean_curve(self, part: str) -> dict[int, float]:
        """By epoch, the mean of the runs that came as far: the part is `training` or `validation`."""
        scores: dict[int, list[float]] = {}
        for run in self.runs:
            for epoch, metrics in run.epochs.items():
                scores.setdefault(epoch, []).append(self.task.of(metrics, part))
        return {epoch: mean(values) for epoch, values in sorted(scores.items())}


class Experiment:
    """All runs but those of pretraining, in groups; tasks by name, variants without ELMo first, then by name."""

    def __init__(self, runs: Iterable[Run]) -> None:
        cells: dict[tuple[Task, str, float], list[Run]] = {}
        for run in runs:
            cells.setdefault((run.task, run.variant, run.fraction), []).append(run)
        with_elmo = {variant: any(map(_has_elmo, rows)) for (_, variant, _), rows in cells.items()}
        self.baselines = {variant for variant, has_elmo in with_elmo.items() if not has_elmo}
        order = sorted(cells, key=lambda cell: (cell[0], with_elmo[cell[1]], cell[1], cell[2]))
        self.groups = [Group(*cell, sorted(cells[cell], key=_seed)) for cell in order]
        self.tasks = list(dict.fromkeys(group.task for group in self.groups))
        self.variants = sorted(with_elmo, key=lambda variant: (with_elmo[variant], variant))

    def full(self, task: Task) -> list[Group]:
        """The groups of a task that were trained on the most of its data, a variant each."""
        most = max(group.fraction for group in self.groups if group.task == task)
        return [group for group in self.groups if group.task == task and group.fraction == most]

    def by_fraction(self, task: Task) -> dict[str, list[Group]]:
        """The groups of each variant of a task that was trained on several fractions, the smallest first."""
        found: dict[str, list[Group]] = {}
        for group in self.groups:
            if group.task == task:
                found.setdefault(group.variant, []).append(group)
        return {variant: groups for variant, groups in found.items() if len(groups) > 1}


def _has_elmo(run: Run) -> bool:
    return run.has_elmo


def _seed(run: Run) -> int:
    return run.seed
