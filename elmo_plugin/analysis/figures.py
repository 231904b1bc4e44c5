"""Draw the figures of a report. Each function returns a matplotlib `Figure` that fits the screen of a phone."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from io import BytesIO
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter
from pandas import DataFrame
from sklearn.decomposition import PCA
from sklearn.metrics import ConfusionMatrixDisplay

from elmo_plugin.analysis.runs import Run, Task

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#6E6E6E"
STYLE = {
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": "medium",
    # Colours that colour-blind readers can tell apart (Okabe & Ito 2008, jfly.uni-koeln.de/color).
    "axes.prop_cycle": f"cycler('color', ['{BLUE}', '{ORANGE}', '#009E73', '#CC79A7', '#56B4E9', '#E69F00'])",
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "grid.color": "#E4E4E4",
    "lines.markersize": 4,
    "svg.fonttype": "none",  # text stays text: smaller files, which can be searched
    "svg.hashsalt": "elmo-plugin",  # the same ids each time
    "text.parse_math": False,  # a dollar in a name is a dollar
}
styled = style.context(["default", STYLE])
"""A decorator for functions that draw or save figures: they use our style instead of the user's."""
TOKENS = "training_n_tokens"
WIDTH = 4.0
"""The width of a figure in inches; a screen of 390 pixels shows it at 93 %."""


@styled
def svg(figure: Figure) -> bytes:
    """Return a figure as an SVG file without a date, so that the same figure gives the same bytes."""
    file = BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


@styled
def scores(task: Task, rows: DataFrame) -> Figure:
    """Draw a dot per run, and the mean and the standard deviation of each variant."""
    groups = dict(list(rows.groupby("variant", observed=True)))
    figure = Figure(figsize=(WIDTH, 0.8 + 0.3 * len(groups)))
    axis = figure.subplots()
    for y, group in enumerate(groups.values()):
        colour = BLUE if group["ELMo"].any() else GREY
        axis.plot(group["score"], [y + 0.2] * len(group), "o", color=colour, alpha=0.35, mew=0)
        axis.errorbar(group["score"].mean(), y, xerr=group["score"].std(), color=colour, marker="|", ms=9, mew=2)
    axis.set_yticks(range(len(groups)), labels=[fill(variant, 24) for variant in groups])
    axis.invert_yaxis()
    axis.set_xlabel(task.title)
    return figure


@styled
def sample_efficiency(task: Task, rows: DataFrame) -> Figure:
    """Draw the score by the share of the training data, logarithmic (figure 1 of the paper)."""
    figure = Figure(figsize=(WIDTH, 3.2))
    axis = figure.subplots()
    cells = rows.groupby(["share", "variant"], observed=True)["score"]
    cells.mean().unstack().plot(yerr=cells.std().unstack(), ax=axis, logx=True, marker="o", capsize=2.5, legend=False)
    axis.set(xlabel="training data, %", ylabel=task.title)
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    _legend(figure, axis)
    return figure


@styled
def learning_curves(task: Task, rows: DataFrame) -> Figure:
    """Draw one panel per variant: the training and validation score by epoch, one line per seed."""
    groups = dict(list(rows.groupby("variant", observed=True)))
    figure, axes = _panels(len(groups), 1.8, sharey=True)
    for axis, (variant, group) in zip(axes, groups.items(), strict=True):
        axis.set_title(fill(variant, 24))
        for run in group["run"]:
            for part, colour, dashes in (("training", ORANGE, "--"), ("validation", BLUE, "-")):
                curve = [task.of(metrics, part) for metrics in run.epochs.values()]
                axis.plot(list(run.epochs), curve, color=colour, ls=dashes, lw=1, marker=".", label=part)
            if run.best_epoch in run.epochs:
                axis.plot(run.best_epoch, run.score, color=BLUE, marker="o", ls="", label="best epoch")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend(figure, axes[0])
    figure.supxlabel("epoch", fontsize="medium")
    figure.supylabel(task.title, fontsize="medium")
    return figure


@styled
def layer_weights(weights: DataFrame) -> Figure:
    """Draw a bar per row of `weights`, divided into the shares of the layers (figure 2 of the paper)."""
    figure = Figure(figsize=(WIDTH, 1.1 + 0.3 * len(weights)))
    axis = figure.subplots()
    shades = [str(shade) for shade in np.linspace(0.9, 0.6, len(weights.columns))]
    weights.plot.barh(stacked=True, ax=axis, color=shades, edgecolor="white", legend=False)
    bars: Any
    for bars in axis.containers:
        axis.bar_label(bars, fmt="%.2f", label_type="center")
    axis.set_yticks(range(len(weights)), labels=[fill(name, 24) for name in weights.index])
    axis.set(xlim=(0, 1), xlabel="layer weight", ylabel="")
    axis.invert_yaxis()
    _legend(figure, axis)
    return figure


@styled
def confusion_matrices(matrices: Mapping[str, DataFrame]) -> Figure:
    """Draw one panel per variant: the share of the texts of each true label that got each label."""
    side = 1.1 + 0.35 * max(map(len, matrices.values()))
    figure, axes = _panels(len(matrices), side, columns=2 if side < 2.6 else 1)
    for axis, (variant, counts) in zip(axes, matrices.items(), strict=True):
        shares = counts.div(counts.sum(axis=1).clip(lower=1), axis=0)
        display = ConfusionMatrixDisplay(shares.to_numpy(), display_labels=list(counts.index))
        display.plot(ax=axis, cmap="Blues", values_format=".0%", colorbar=False, im_kw={"vmin": 0, "vmax": 1})
        axis.grid(False)
        axis.set_title(fill(variant, 24))
        axis.tick_params("x", rotation=90)
    return figure


@styled
def perplexity(runs: Sequence[Run]) -> Figure:
    """Draw a panel per direction: the perplexity of pretraining runs by the tokens trained on, logarithmic.

    The x axis shows epochs if a run does not record its tokens, such as a run with a `sampled` softmax.
    """
    frames = {run.name: DataFrame.from_dict(run.epochs, orient="index") for run in runs}
    by_tokens = all(TOKENS in epochs for epochs in frames.values())
    figure, axes = _panels(2, 2.4, sharey=True)
    for axis, direction in zip(axes, ("forward", "backward"), strict=True):
        for number, (name, epochs) in enumerate(frames.items()):
            x = epochs[TOKENS].cumsum() / 1e6 if by_tokens else epochs.index
            for part, dashes, label in (("validation", "-", name), ("training", "--", "")):
                curve = epochs.get(f"{part}_{direction}_perplexity")
                if curve is not None:
                    finite = curve.where(np.isfinite(curve))
                    axis.plot(x, finite, color=f"C{number}", ls=dashes, marker=".", label=label)
        axis.set(title=direction, yscale="log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axis.yaxis.set_minor_formatter(NullFormatter())
    figure.supxlabel("tokens trained on, millions" if by_tokens else "epoch", fontsize="medium")
    figure.supylabel("perplexity", fontsize="medium")
    _legend(figure, axes[0])
    return figure


@styled
def contexts(vectors: np.ndarray, labels: Sequence[str], nearest: Sequence[int]) -> Figure:
    """Draw the uses of a word by the first two principal components of their vectors, in a colour per label.

    `vectors` (1 + N, D) are those of the query and of N uses, which `labels` describe. The uses at the indices
    `nearest` get the numbers 1, 2, …
    """
    components = PCA(2, random_state=0)
    query, *points = components.fit_transform(vectors).tolist()  # (2,) each
    figure = Figure(figsize=(WIDTH, WIDTH + 0.1 * len(set(labels))))
    axis = figure.subplots()
    for number, (label, count) in enumerate(Counter(labels).most_common()):
        x, y = zip(*(point for point, each in zip(points, labels, strict=True) if each == label), strict=True)
        axis.scatter(
            x, y, s=14, alpha=0.7, color=f"C{number % 6}", marker="os^Dv"[number // 6 % 5], label=f"{label} ({count})"
        )
    axis.plot(*query, color="black", ls="", marker="*", ms=12, label="the query")
    for number, index in enumerate(nearest, 1):
        axis.annotate(str(number), points[index], textcoords="offset points", xytext=(3, 3))
    first, second = 100 * components.explained_variance_ratio_
    axis.set(xlabel=f"component 1: {first:.0f} % of the variance", ylabel=f"component 2: {second:.0f} %")
    _legend(figure, axis)
    return figure


def _panels(count: int, height: float, columns: int = 2, **share: Any) -> tuple[Figure, list[Any]]:
    """Return a figure and `count` panels of `height` inches."""
    columns = min(count, columns)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(max(WIDTH, height), 0.6 + rows * height))
    axes = figure.subplots(rows, columns, squeeze=False, **share).flatten().tolist()
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def _legend(figure: Figure, axis: Any) -> None:
    """Name the lines of a panel above all panels, each name once."""
    handles, labels = axis.get_legend_handles_labels()
    lines = dict(zip(labels, handles, strict=True))
    longest = max(map(len, labels))
    columns = 3 if longest <= 10 else 2 if longest <= 18 else 1
    figure.legend(lines.values(), lines.keys(), loc="outside upper center", ncols=columns)
