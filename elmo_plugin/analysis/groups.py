"""Group runs that differ only in the seed, and summarize their scores."""

import math
from collections.abc import Iterable, Sequence
from statistics import mean, stdev
from typing import NamedTuple, Optional

from elmo_plugin.analysis.runs import Run, Task


class Summary(NamedTuple):
    """The mean over seeds, the sample standard deviation (NaN for one seed), and the number of seeds."""

    mean: float
    deviation: float
    seeds: int

    def text(self, digits: int = 2) -> str:
        """Return `38.15 ± 1.57`, or `38.15` for one seed."""
        deviation = "" if math.isnan(self.deviation) else f" ± {self.deviation:.{digits}f}"
        return f"{self.mean:.{digits}f}{deviation}"


def summary(values: Sequence[float]) -> Summary:
    """Return the summary of one number or more.

    >>> summary([1.0, 2.0]).text()
    '1.50 ± 0.71'
    """
    return Summary(mean(values), stdev(values) if len(values) > 1 else math.nan, len(values))


class Group(NamedTuple):
    """The seeds of one variant of a task, trained on one share of its training data."""

    task: Task
    variant: str
    fraction: float
    runs: list[Run]

    def summary(self) -> Summary:
        """Return the summary of the scores."""
        return summary([run.score for run in self.runs])

    def mean_curve(self, part: str) -> dict[int, float]:
        """Map each epoch to the mean over the runs that reached it; `part` is `training` or `validation`."""
        scores: dict[int, list[float]] = {}
        for run in self.runs:
            for epoch, metrics in run.epochs.items():
                scores.setdefault(epoch, []).append(self.task.of(metrics, part))
        return {epoch: mean(values) for epoch, values in sorted(scores.items())}


class Experiment:
    """All runs except pretraining, in groups. Tasks are sorted by name; variants without ELMo come first."""

    def __init__(self, runs: Iterable[Run]) -> None:
        cells: dict[tuple[Task, str, float], list[Run]] = {}
        with_elmo = set()
        for run in runs:
            cells.setdefault((run.task, run.variant, run.fraction), []).append(run)
            if run.has_elmo:
                with_elmo.add(run.variant)
        variants = {variant for _, variant, _ in cells}
        self.baselines = variants - with_elmo
        self.variants = sorted(variants, key=lambda variant: (variant in with_elmo, variant))
        order = sorted(cells, key=lambda cell: (cell[0], self.variants.index(cell[1]), cell[2]))
        self.groups = [Group(*cell, sorted(cells[cell], key=lambda run: run.seed or 0)) for cell in order]
        self.tasks = list(dict.fromkeys(group.task for group in self.groups))

    def full(self, task: Task) -> list[Group]:
        """Return the groups trained on the largest share of a task's data, at most one per variant."""
        most = max(group.fraction for group in self.groups if group.task == task)
        return [group for group in self.groups if group.task == task and group.fraction == most]

    def by_fraction(self, task: Task) -> dict[str, list[Group]]:
        """Map each variant trained on several shares of a task's data to its groups, the smallest share first."""
        found: dict[str, list[Group]] = {}
        for group in self.groups:
            if group.task == task:
                found.setdefault(group.variant, []).append(group)
        return {variant: groups for variant, groups in found.items() if len(groups) > 1}

    def best(self, task: Task) -> Optional[str]:
        """Return the variant with the best mean, or `None` for a tie at two decimals and for a single variant."""
        means = {group.variant: float(f"{group.summary().mean:.2f}") for group in self.full(task)}
        top = (max if task.higher_is_better else min)(means.values())
        winners = [variant for variant in means if means[variant] == top]
        return winners[0] if len(winners) == 1 < len(means) else None


def side_by_side(groups: Iterable[Group]) -> list[tuple[list[Task], list[str]]]:
    """Return (tasks, variants) for each table. Tasks with the same variants share a table, so that no cell is empty."""
    variants: dict[Task, list[str]] = {}
    for group in groups:
        variants.setdefault(group.task, []).append(group.variant)
    tables: dict[tuple[str, ...], list[Task]] = {}
    for task, names in variants.items():
        tables.setdefault(tuple(names), []).append(task)
    return [(tasks, list(names)) for names, tasks in tables.items()]
