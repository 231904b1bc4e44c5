"""Figures of lines: learning curves, score by the size of the training data, perplexity of pretraining."""

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, cycle
from typing import Any

from elmo_plugin.analysis.canvas import (
    BLUE,
    COLOURS,
    GREY,
    ORANGE,
    drawing,
    label_ends,
    panels,
    plain_log,
    png,
    whole_numbers,
    wrapped,
)
from elmo_plugin.analysis.groups import Experiment, Group
from elmo_plugin.analysis.runs import Run, Task

PANEL = (2.5, 2.4)
TOKENS = "training_n_tokens"


def learning_curves(experiment: Experiment, task: Task) -> bytes:
    """A panel for each variant of a task: training and validation score by epoch, a line a seed."""
    groups = experiment.full(task)
    first = groups[0] if groups[0].variant in experiment.baselines and len(groups) > 1 else None
    with drawing():
        figure, axes = panels(len(groups), 4, PANEL, sharex=True, sharey=True)
        for axis, group in zip(axes, groups, strict=True):
            axis.set_title(wrapped(group.variant, PANEL[0]))
            if first is not None and group is not first:
                curve = first.mean_curve("validation")
                axis.plot(list(curve), list(curve.values()), color=GREY, ls=":", label=f"{first.variant}, validation")
            _draw_seeds(axis, group)
            whole_numbers(axis)
        handles = {label: line for axis in axes for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=2 if len(groups) < 3 else 4)
        if task.scale == 100:
            axes[0].set_ylim(top=min(100, axes[0].get_ylim()[1]))
        figure.supxlabel("epoch", fontsize="medium")
        figure.supylabel(task.label, fontsize="medium")
        return png(figure)


def _draw_seeds(axis: Any, group: Group) -> None:
    for run in group.runs:
        for part, colour, style in (("training", ORANGE, "--"), ("validation", BLUE, "-")):
            scores = [group.task.of(metrics, part) for metrics in run.epochs.values()]
            axis.plot(list(run.epochs), scores, color=colour, ls=style, lw=1, marker=".", alpha=0.8, label=part)
        best = run.metrics.get("best_epoch")
        if isinstance(best, int):
            axis.plot(best + 1, run.score, color=BLUE, marker="o", ls="", label="best epoch")


def sample_efficiency(experiment: Experiment, tasks: Sequence[Task]) -> bytes:
    """A panel for each task: the score by the part of the training data, logarithmic (figure 1 of the paper)."""
    with drawing():
        figure, axes = panels(len(tasks), 3, (3.6, 2.7))
        for axis, task in zip(axes, tasks, strict=True):
            lines = experiment.by_fraction(task)
            for variant, groups in lines.items():
                summaries = [group.summary() for group in groups]
                axis.errorbar(
                    [100 * group.fraction for group in groups],
                    [each.mean for each in summaries],
                    [0 if math.isnan(each.deviation) else each.deviation for each in summaries],
                    color=_colour(experiment, variant),
                    marker="o",
                    capsize=2.5,
                    ls="--" if variant in experiment.baselines else "-",
                )
            ticks = sorted({100 * group.fraction for groups in lines.values() for group in groups})
            axis.set(title=task.name, xscale="log", xlabel="training data, %", ylabel=task.label)
            axis.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
            axis.set_xticks([], minor=True)
        figure.draw_without_rendering()
        for axis, task in zip(axes, tasks, strict=True):
            ends = [(variant, groups[-1]) for variant, groups in experiment.by_fraction(task).items()]
            label_ends(
                axis,
                [(100 * end.fraction, end.summary().mean, name, _colour(experiment, name)) for name, end in ends],
            )
        return png(figure)


def perplexity(runs: Sequence[Run]) -> bytes:
    """A panel for each direction: perplexity of pretraining runs by the tokens that they were trained on.

    By epochs, if a run does not tell its tokens: a `sampled` softmax does not.
    """
    by_tokens = all(TOKENS in metrics for run in runs for metrics in run.epochs.values())
    with drawing():
        figure, axes = panels(2, 2, (4.6, 3.1), sharey=True)
        for axis, direction in zip(axes, ("forward", "backward"), strict=True):
            for run, colour in zip(runs, cycle(COLOURS), strict=False):
                work = _millions(run) if by_tokens else list(run.epochs)
                training, validation = (perplexities(run, part, direction) for part in ("training", "validation"))
                axis.plot(work, training, color=colour, ls="--", label="training")
                axis.plot(work, validation, color=colour, marker="o", label="validation")
            plain_log(axis.set_yscale, axis.yaxis)
            if by_tokens:
                plain_log(axis.set_xscale, axis.xaxis)
            else:
                whole_numbers(axis)
            axis.set(title=direction, xlabel="tokens trained on, millions" if by_tokens else "epoch")
        axes[0].set_ylabel("perplexity")
        figure.draw_without_rendering()
        for axis in axes:
            label_ends(axis, list(_ends(runs, axis.get_lines()[1::2])))
        drawn = {line.get_label(): line for line in axes[0].get_lines() if any(map(math.isfinite, line.get_ydata()))}
        figure.legend(handles=list(drawn.values()), loc="outside upper center", ncols=2)
        return png(figure)


def perplexities(run: Run, part: str, direction: str) -> list[float]:
    """Of each epoch; NaN where the run does not tell it, or where it is infinite."""
    values = [metrics.get(f"{part}_{direction}_perplexity", math.nan) for metrics in run.epochs.values()]
    return [value if math.isfinite(value) else math.nan for value in values]


def _millions(run: Run) -> list[float]:
    """The tokens that a run was trained on until the end of each epoch."""
    return list(accumulate(metrics[TOKENS] / 1e6 for metrics in run.epochs.values()))


def _ends(runs: Sequence[Run], lines: Sequence[Any]) -> Iterator[tuple[float, float, str, str]]:
    """The last points of lines, as `label_ends` wants them."""
    for run, line in zip(runs, lines, strict=True):
        points = [point for point in line.get_xydata().tolist() if math.isfinite(point[1])]
        if points:
            yield (*points[-1], run.name, line.get_color())


def _colour(experiment: Experiment, variant: str) -> str:
    if variant in experiment.baselines:
        return GREY
    others = [name for name in experiment.variants if name not in experiment.baselines]
    return COLOURS[others.index(variant) % len(COLOURS)]
