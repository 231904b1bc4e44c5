"""Figures of dots and cells: scores of variants, layer weights, confusion matrices."""

import math
from collections.abc import Sequence
from itertools import product

from elmo_plugin.analysis.canvas import BLUE, GREY, drawing, heat_map, panels, png, wrapped
from elmo_plugin.analysis.confusion import Confusion
from elmo_plugin.analysis.groups import Experiment


def scores(experiment: Experiment) -> bytes:
    """A panel for each task: a line for each variant with a dot a seed, their mean and its deviation."""
    height = 1.0 + 0.24 * len(experiment.variants)
    with drawing():
        figure, axes = panels(len(experiment.tasks), 3, (3.1, height), sharey=True)
        for axis, task in zip(axes, experiment.tasks, strict=True):
            for group in experiment.full(task):
                y = experiment.variants.index(group.variant)
                total = group.summary()
                colour = GREY if group.variant in experiment.baselines else BLUE
                axis.plot(
                    [run.score for run in group.runs],
                    [y] * total.seeds,
                    "o",
                    color=colour,
                    alpha=0.35,
                    mew=0,
                    clip_on=False,
                )
                deviation = None if math.isnan(total.deviation) else total.deviation
                axis.errorbar(total.mean, y, xerr=deviation, color=colour, marker="|", ms=9, mew=2, capsize=0)
                axis.text(1.02, y, f"{total.mean:.1f}", transform=axis.get_yaxis_transform(), va="center", color=colour)
            axis.set(title=task.name, xlabel=task.label)
            axis.set_yticks(range(len(experiment.variants)), labels=experiment.variants)
            axis.set_ylim(len(experiment.variants) - 0.5, -0.5)
            axis.margins(x=0.08)
            if task.scale == 100 and axis.get_xlim()[1] > 100:
                axis.set_xlim(right=100)
        return png(figure)


def layer_weights(weights: dict[tuple[str, str, str], Sequence[float]], order: Sequence[str]) -> bytes:
    """A panel for each (place of ELMo, task): softmax(w) of each layer, a row a variant (figure 2 of the paper)."""
    places, tasks, found = (list(dict.fromkeys(names)) for names in zip(*weights, strict=True))
    variants = [variant for variant in order if variant in found]
    layers = max(map(len, weights.values()))
    missing = [math.nan] * layers
    with drawing():
        size = (0.5 + 0.48 * layers, 0.75 + 0.25 * len(variants))
        figure, axes = panels(len(places) * len(tasks), len(tasks), size, sharey=True)
        for axis, (place, task) in zip(axes, product(places, tasks), strict=True):
            rows = [[*weights.get((place, task, variant), ()), *missing][:layers] for variant in variants]
            heat_map(axis, rows, [["" if math.isnan(value) else f"{value:.2f}" for value in row] for row in rows])
            axis.set_title(f"{wrapped(task, size[0])}\n{place}")
            axis.set_xticks(range(layers))
            axis.set_yticks(range(len(variants)), labels=variants)
        figure.supxlabel("layer", fontsize="medium")
        return png(figure)


def confusion_matrices(matrices: dict[str, Confusion]) -> bytes:
    """A panel for each variant of a task: of the texts of a label, the share that was taken for each, in percent."""
    labels = max((matrix.labels for matrix in matrices.values()), key=len)
    side = 1.2 + 0.42 * len(labels)
    with drawing():
        figure, axes = panels(len(matrices), 3, (side + 0.5, side), sharex=True, sharey=True)
        for axis, (variant, matrix) in zip(axes, matrices.items(), strict=True):
            values = [[count / max(1, sum(row)) for count in row] for row in matrix.counts]
            heat_map(axis, values, [[f"{100 * value:.0f}" for value in row] for row in values])
            axis.set_title(wrapped(variant, side))
            axis.set_xticks(range(len(labels)), labels=labels, rotation=40, ha="right", rotation_mode="anchor")
            axis.set_yticks(range(len(labels)), labels=labels)
        figure.supxlabel("predicted label", fontsize="medium")
        figure.supylabel("true label", fontsize="medium")
        return png(figure)
