"""Draw the figures of a report. Each function returns a matplotlib `Figure`."""

import math
from collections.abc import Sequence
from itertools import accumulate, chain
from textwrap import fill

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from elmo_plugin.analysis.confusion import Confusion
from elmo_plugin.analysis.groups import Experiment, Group, side_by_side, summary
from elmo_plugin.analysis.layer_weights import LearnedMix
from elmo_plugin.analysis.panels import (
    BLUE,
    COLOURS,
    GREY,
    ORANGE,
    colour_bar,
    grid,
    heat_map,
    label_width,
    legend_beside,
    plain_log,
    share_span,
    styled,
    whole_numbers,
    wrapped,
)
from elmo_plugin.analysis.runs import Run, Task, number_of

TOKENS = "training_n_tokens"


@styled
def scores(experiment: Experiment) -> Figure:
    """Draw one panel per task. Each variant has a dot per run, a mark at their mean, and a bar for their deviation."""
    tables = side_by_side(group for task in experiment.tasks for group in experiment.full(task))
    rows = [(tasks[i : i + 3], len(variants)) for tasks, variants in tables for i in range(0, len(tasks), 3)]
    heights = [0.8 + 0.24 * count for _, count in rows]
    margin = max(1.2, label_width(experiment.variants))  # the legend needs 3.8 inches
    figure, axes = grid([len(tasks) for tasks, _ in rows], heights, 2.6, margin, sharey="row")
    panels = dict(zip(chain.from_iterable(tasks for tasks, _ in rows), chain.from_iterable(axes), strict=True))
    for task, axis in panels.items():
        groups = experiment.full(task)
        for y, group in enumerate(groups):
            total = group.summary()
            colour = GREY if group.variant in experiment.baselines else BLUE
            if total.seeds > 1:
                dots = [run.score for run in group.runs]
                axis.plot(dots, [y] * total.seeds, "o", color=colour, alpha=0.35, mew=0, clip_on=False)
            axis.errorbar(total.mean, y, xerr=total.deviation, color=colour, marker="|", ms=9, mew=2)
            axis.text(1.02, y, f"{total.mean:.1f}", transform=axis.get_yaxis_transform(), va="center", color=colour)
        axis.set(title=task.name, xlabel=task.label, ylim=(len(groups) - 0.5, -0.5))
        axis.set_yticks(range(len(groups)), labels=[group.variant for group in groups])
        axis.margins(x=0.08)
    for label, scale in {(task.label, task.scale) for task in panels}:
        share_span([axis for task, axis in panels.items() if task.label == label], percent=scale == 100)
    names = {GREY: "without ELMo", BLUE: "with ELMo"}
    used = {GREY if variant in experiment.baselines else BLUE for variant in experiment.variants}
    handles = [Line2D([], [], color=c, marker="|", ms=9, mew=2, label=names[c]) for c in names if c in used]
    if any(len(group.runs) > 1 for group in experiment.groups):
        handles.append(Line2D([], [], color=BLUE, marker="o", ls="", alpha=0.35, mew=0, label="one run"))
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure


@styled
def sample_efficiency(experiment: Experiment, tasks: Sequence[Task]) -> Figure:
    """Draw one panel per task: the score by the share of the training data, logarithmic (figure 1 of the paper)."""
    drawn = {variant for task in tasks for variant in experiment.by_fraction(task)} - experiment.baselines
    with_elmo = [variant for variant in experiment.variants if variant in drawn]
    colours = {variant: COLOURS[i % len(COLOURS)] for i, variant in enumerate(with_elmo)}
    figure, axes = wrapped(len(tasks), 3, (3.6, 2.7))
    for axis, task in zip(axes, tasks, strict=True):
        lines = experiment.by_fraction(task)
        drawn_lines = []
        for variant, groups in lines.items():
            summaries = [group.summary() for group in groups]
            line = axis.errorbar(
                [100 * group.fraction for group in groups],
                [each.mean for each in summaries],
                [each.deviation for each in summaries],  # NaN, the deviation of one seed, draws no bar
                color=colours.get(variant, GREY),
                marker="o",
                capsize=2.5,
                ls="--" if variant in experiment.baselines else "-",
            )
            drawn_lines.append((variant, line, summaries[-1].mean))
        ticks = sorted({100 * group.fraction for groups in lines.values() for group in groups})
        axis.set(title=task.name, xscale="log", xlabel="training data, %", ylabel=task.label)
        axis.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        axis.set_xticks([], minor=True)
        legend_beside(axis, drawn_lines)
    return figure


@styled
def learning_curves(experiment: Experiment, task: Task) -> Figure:
    """Draw one panel per variant of a task: the training and validation score by epoch, one line per seed."""
    groups = experiment.full(task)
    first = groups[0] if groups[0].variant in experiment.baselines else None
    figure, axes = wrapped(len(groups), 4, (2.5, 2.3), sharex=True, sharey=True)
    for axis, group in zip(axes, groups, strict=True):
        axis.set_title(fill(group.variant, 27))
        if first is not None and group is not first:
            mean = first.mean_curve("validation")
            axis.plot(list(mean), list(mean.values()), color=GREY, ls=":", label=f"validation, {first.variant}")
        for run in group.runs:
            for part, colour, dashes in (("training", ORANGE, "--"), ("validation", BLUE, "-")):
                curve = [task.of(metrics, part) for metrics in run.epochs.values()]
                axis.plot(list(run.epochs), curve, color=colour, ls=dashes, lw=1, marker=".", alpha=0.8, label=part)
            best = run.metrics.get("best_epoch")
            if isinstance(best, int) and best + 1 in run.epochs:
                axis.plot(best + 1, run.score, color=BLUE, marker="o", ls="", label="best epoch")
        whole_numbers(axis)
    if task.scale == 100:
        axes[0].set_ylim(top=min(100, axes[0].get_ylim()[1]))
    handles = {label: line for axis in axes for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=2 if len(groups) < 3 else 4)
    figure.supxlabel("epoch", fontsize="medium")
    figure.supylabel(task.label, fontsize="medium")
    return figure


@styled
def layer_weights(mixes: Sequence[tuple[str, Group, Sequence[LearnedMix]]]) -> Figure:
    """Draw softmax(w) of each layer: one panel per place and task, one row per variant (figure 2 of the paper)."""
    means = {
        (place, group.task, group.variant): [
            summary(weights).mean for weights in zip(*(mix.weights for mix in seeds), strict=True)
        ]
        for place, group, seeds in mixes
    }
    rows = [
        (place, tasks, variants)
        for place in dict.fromkeys(place for place, _, _ in mixes)
        for tasks, variants in side_by_side(group for at, group, _ in mixes if at == place)
    ]
    layers = [str(layer) for layer in range(max(map(len, means.values())))]
    width = 0.3 + 0.42 * len(layers)
    heights = [0.7 + 0.25 * len(variants) for _, _, variants in rows]
    figure, axes = grid(
        [len(tasks) for _, tasks, _ in rows],
        heights,
        width,
        label_width(variant for _, _, variant in means) + 0.8,
        sharey="row",
    )
    for (place, tasks, variants), row in zip(rows, axes, strict=True):
        for task, axis in zip(tasks, row, strict=True):
            mesh = heat_map(axis, [means[place, task, variant] for variant in variants], layers, variants, "{:.2f}")
            axis.set_title("\n".join(fill(name, int(12 * width)) for name in (task.name, place)))
    figure.supxlabel("layer", fontsize="medium")
    colour_bar(figure, mesh, list(chain.from_iterable(axes)), "layer weight")
    return figure


@styled
def confusion_matrices(matrices: dict[str, Confusion]) -> Figure:
    """Draw one panel per variant of a task: the share of the texts of each true label that got each label."""
    names = {label for matrix in matrices.values() for label in matrix.labels}
    side, margin = 0.5 + 0.45 * len(names), label_width(names) + 0.9
    figure, axes = wrapped(len(matrices), 3, (side + 0.4, side), margin, sharex=True, sharey=True)
    for axis, (variant, (labels, counts)) in zip(axes, matrices.items(), strict=True):
        shares = [[count / max(1, sum(row)) for count in row] for row in counts]
        mesh = heat_map(axis, shares, labels, labels, "{:.0%}")
        axis.set_title(fill(variant, int(11 * side)))
        axis.tick_params("x", rotation=40)
        for label in axis.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    figure.supxlabel("predicted label", fontsize="medium")
    figure.supylabel("true label", fontsize="medium")
    colour_bar(figure, mesh, axes, "share of a row")
    return figure


@styled
def perplexity(runs: Sequence[Run]) -> Figure:
    """Draw one panel per direction: the perplexity of pretraining runs by the number of tokens trained on.

    The x axis shows epochs if a run does not record its tokens, such as a run with a `sampled` softmax.
    """
    by_tokens = all(math.isfinite(number_of(metrics, TOKENS)) for run in runs for metrics in run.epochs.values())
    figure, axes = wrapped(2, 2, (4.2, 3.1), sharey=True)
    has_training = False
    for axis, direction in zip(axes, ("forward", "backward"), strict=True):
        lines = []
        for i, run in enumerate(runs):
            colour, epochs = COLOURS[i % len(COLOURS)], run.epochs.values()
            tokens = [number_of(metrics, TOKENS) / 1e6 for metrics in epochs]
            work = list(accumulate(tokens)) if by_tokens else list(run.epochs)
            training, validation = (
                [number_of(metrics, f"{part}_{direction}_perplexity") for metrics in epochs]
                for part in ("training", "validation")
            )
            has_training = has_training or any(map(math.isfinite, training))
            axis.plot(work, _without_infinity(training), color=colour, ls="--")
            (line,) = axis.plot(work, _without_infinity(validation), color=colour, marker="o")
            lines.append((run.name, line, validation[-1] if validation else math.nan))
        plain_log(axis.set_yscale, axis.yaxis)
        if by_tokens:
            plain_log(axis.set_xscale, axis.xaxis)
        else:
            whole_numbers(axis)
        axis.set(title=direction, xlabel="tokens trained on, millions" if by_tokens else "epoch")
    axes[0].set_ylabel("perplexity")
    legend_beside(axes[1], lines)
    handles = [Line2D([], [], color=GREY, marker="o", label="validation")]
    handles += [Line2D([], [], color=GREY, ls="--", label="training")] if has_training else []
    figure.legend(handles=handles, loc="outside upper center", ncols=2)
    return figure


def _without_infinity(values: Sequence[float]) -> list[float]:
    return [value if math.isfinite(value) else math.nan for value in values]
