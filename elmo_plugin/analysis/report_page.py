"""Draw a report about finished runs. Each section is a function of a table with a row per run (see `Run`)."""

import shlex
from collections.abc import Iterator, Sequence
from math import isnan
from pathlib import Path
from textwrap import fill

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator, StrMethodFormatter
from pandas import DataFrame, Series

from elmo_plugin.analysis.figure_page import BLUE, ORANGE, WIDTH, Section, add_legend, page_files, panels, styled
from elmo_plugin.analysis.runs import Run, Uncounted


@styled
def render(paths: Sequence[Path], runs: Sequence[Run], uncounted: Sequence[Uncounted]) -> dict[str, bytes]:
    """Return the content of each file of a report, by name. Sections without data are left out."""
    frame = DataFrame(runs).sort_values(["task", "variant", "share"], kind="stable")
    full = frame[frame["share"] == frame.groupby("task")["share"].transform("max")]
    sections = [
        _scores(full),
        *_training_set_size(frame),
        *_label_scores(full),
        *_layer_weights(full),
        _learning_curves(full),
        *_perplexities(full),
        _all_runs(frame, uncounted),
    ]
    command = shlex.join(["elmo-plugin", "report-elmo", *map(str, paths), "--output", "FOLDER"])
    return page_files(
        "report", "Report on finished runs", f"Finished runs: {len(runs)}. Written by: {command}", sections
    )


def mean_and_deviation(scores: Series) -> str:
    """Return the mean ± the sample standard deviation and, in brackets, the number of runs.

    >>> mean_and_deviation(Series([1.0, 2.0]))
    '1.50 ± 0.71 (2)'
    """
    deviation = f" ± {scores.std():.2f}" if len(scores) > 1 else ""
    return f"{scores.mean():.2f}{deviation} ({len(scores)})"


def _pivot(rows: DataFrame, index: Sequence[str], columns: str, values: str) -> DataFrame:
    """Return the mean and the deviation of `values` for each row of `index` and each value of `columns`."""
    cells = rows.groupby([*index, columns])[values].apply(mean_and_deviation)
    return cells.unstack(columns).rename_axis(columns=None).reset_index()


def _scores(full: DataFrame) -> Section:
    text = (
        "The score of the best epoch on the validation data, after training on the largest share of a task's training "
        "data: the mean ± the standard deviation over seeds, and the number of seeds in brackets. In the figures, a "
        "light dot is a run."
    )
    figures = {}
    for task, rows in full.groupby("task"):
        by_variant = rows.groupby("variant")["score"]
        figure = Figure(figsize=(WIDTH, 0.8 + 0.35 * len(by_variant)))
        axis = figure.subplots()
        places = by_variant.ngroup()
        axis.plot(rows["score"], places + 0.2, "o", alpha=0.35, mew=0, clip_on=False)
        axis.errorbar(
            by_variant.mean(), range(len(by_variant)), xerr=by_variant.std().fillna(0), fmt="|", color=BLUE, ms=9, mew=2
        )
        axis.set_yticks(range(len(by_variant)), labels=[fill(variant, 24) for variant in by_variant.groups])
        axis.set(ylim=(len(by_variant) - 0.5, -0.5), xlabel=rows["axis"].iloc[0])
        if rows["axis"].iloc[0].endswith("(%)"):
            axis.set_xlim(right=min(100, axis.get_xlim()[1]))
        figures[f"Scores, {task}"] = figure
    return Section("Scores", text, [_pivot(full, ["variant"], "task", "score")], figures)


def _training_set_size(frame: DataFrame) -> Iterator[Section]:
    text = "The score of each variant by the share of the training data, as in figure 1 of the ELMo paper."
    frame = frame[frame.groupby(["task", "variant"])["share"].transform("nunique") > 1]
    figures = {}
    for task, rows in frame.groupby("task"):
        figure = Figure(figsize=(WIDTH, 3.2))
        axis = figure.subplots()
        cells = rows.groupby(["share", "variant"])["score"]
        means = cells.mean().unstack()
        means = means[means.iloc[-1].sort_values(ascending=False).index]  # the legend names the lines from above
        means.plot(yerr=cells.std().unstack(), ax=axis, logx=True, marker="o", capsize=2, legend=False)
        axis.set(xlabel="Training data (%)", ylabel=rows["axis"].iloc[0])
        axis.set_xticks(sorted(set(rows["share"])))
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.xaxis.set_minor_locator(NullLocator())
        add_legend(figure, axis)
        figures[f"Score by training-set size, {task}"] = figure
    if figures:
        named = frame.assign(share=frame["share"].map("{:g} %".format))
        order = [f"{share:g} %" for share in sorted(set(frame["share"]))]
        table = _pivot(named, ["task", "variant"], "share", "score")[["task", "variant", *order]]
        yield Section("Score by training-set size", text, [table], figures)


def _label_scores(full: DataFrame) -> Iterator[Section]:
    text = "The F1 of each label on the validation data, in percent, of models with verbose metrics."
    rows = DataFrame(
        [
            {"task": run.task, "variant": run.variant, "label": label, "F1": f1}
            for run in full.itertuples()
            for label, f1 in run.label_f1.items()
        ]
    )
    if len(rows):
        yield Section("Scores of labels", text, [_pivot(rows, ["task", "label"], "variant", "F1")])


def _layer_weights(full: DataFrame) -> Iterator[Section]:
    text = (
        "The weight of each layer of the biLM at the input and the output of the task RNN: softmax(w), which sums to "
        "1, as in figure 2 of the ELMo paper. Layer 0 is the token vector, which does not depend on context. γ scales "
        "the sum."
    )
    learned = [
        {"task": run.task, "data": run.data, "variant": run.variant, "at": place, "part": part, "value": value}
        for run in full.itertuples()
        for place, mix in run.mixes.items()
        for part, value in [*((f"layer {i}", weight) for i, weight in enumerate(mix.weights)), ("γ", mix.gamma)]
    ]
    if not learned:
        return
    rows, figures = DataFrame(learned), {}
    for task, group in rows[rows["part"] != "γ"].groupby("task"):
        weights = group.groupby(["variant", "at", "part"])["value"].mean().unstack("part")
        figure = Figure(figsize=(WIDTH, 1.1 + 0.35 * len(weights)))
        axis = figure.subplots()
        weights.plot.barh(stacked=True, ax=axis, colormap="viridis", legend=False)
        axis.set_yticks(range(len(weights)), labels=[fill(f"{variant}, {at}", 24) for variant, at in weights.index])
        axis.set(xlim=(0, 1), xlabel=f"Weight of the layer on {group['data'].iloc[0]}", ylabel="")
        axis.grid(visible=False, axis="y")
        axis.invert_yaxis()
        add_legend(figure, axis)
        figures[f"Layer weights, {task}"] = figure
    yield Section("Layer weights", text, [_pivot(rows, ["task", "variant", "at"], "part", "value")], figures)


def _learning_curves(full: DataFrame) -> Section:
    text = "The score after each epoch, one line per seed."
    figures = {}
    for task, rows in full.groupby("task"):
        variants = list(rows.groupby("variant"))
        figure, axes = panels(len(variants), 1.8)
        for axis, (variant, group) in zip(axes, variants, strict=True):
            for run in group.itertuples():
                epochs = range(1, len(run.validation) + 1)
                if not all(map(isnan, run.training)):
                    axis.plot(epochs, run.training, color=ORANGE, ls="--", lw=1, marker=".", label="training")
                axis.plot(epochs, run.validation, color=BLUE, lw=1, marker=".", label="validation")
            axis.set_title(fill(variant, 24))
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            if "perplexity" in task:
                axis.set_yscale("log", subs=(2, 5))
                axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
                axis.yaxis.set_minor_formatter(StrMethodFormatter("{x:,g}"))
        figure.supxlabel("Epoch", fontsize="medium")
        figure.supylabel(rows["axis"].iloc[0], fontsize="medium")
        add_legend(figure, axes[0])
        figures[f"Learning curves, {task}"] = figure
    return Section("Learning curves", text, [], figures)


def _perplexities(full: DataFrame) -> Iterator[Section]:
    text = (
        "The perplexity of each direction of a biLM on the validation text at the best epoch, over the full softmax. "
        "Compare only runs with the same vocabulary and the same text."
    )
    columns = {
        "forward": "forward_perplexity",
        "backward": "backward_perplexity",
        "mean of both": "perplexity",
        "share of unknown tokens": "oov_rate",
        "tokens": "n_tokens",
    }
    rows = [
        {"run": run.name, **{title: run.metrics[f"best_validation_{key}"] for title, key in columns.items()}}
        for run in full.itertuples()
        if "best_validation_forward_perplexity" in run.metrics
    ]
    if rows:
        yield Section("Pretraining", text, [DataFrame(rows).round(4)])


def _all_runs(frame: DataFrame, uncounted: Sequence[Uncounted]) -> Section:
    text = "All runs that the tables count, and the runs that are not counted."
    shown = frame[["name", "task", "variant", "share", "seed", "score", "best_epoch", "time", "ended", "commit"]]
    listed = [DataFrame(uncounted)] if uncounted else []
    return Section(
        "Runs", text, [shown.round(2).rename(columns={"share": "data, %", "best_epoch": "best epoch"}), *listed]
    )
