"""Draw a report about finished runs. Each section is a function of a table with a row per run (see `Run`)."""

import re
import shlex
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from textwrap import fill

from matplotlib.ticker import MaxNLocator, NullLocator, StrMethodFormatter
from pandas import DataFrame, Series

from elmo_plugin.analysis.figure_page import BLUE, ORANGE, Section, add_legend, panels, styled, write_page
from elmo_plugin.analysis.runs import Run, Uncounted

LABEL_F1 = re.compile(r"best_validation_f1-measure-(?!overall$)(.+)")
"""The key of a label's F1 in the metrics of a model with `verbose_metrics`."""


@styled
def write(output: Path, paths: Sequence[Path], runs: Sequence[Run], uncounted: Sequence[Uncounted]) -> list[Path]:
    """Write the files of a report to a folder, and return them. Sections without data are left out."""
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
    head = f"Finished runs: {len(runs)}. Written by: {command}"
    return write_page(output, "report", "Report on finished runs", head, sections)


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
    figures = {}
    for task, rows in full.groupby("task"):
        by_variant = rows.groupby("variant")["score"]
        figure, (axis,) = panels(0.8 + 0.35 * len(by_variant))
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
    return Section(
        "Scores",
        "The score of the best epoch on the validation data, after training on the largest share of a task's training "
        "data: the mean ± the standard deviation over seeds, and the number of seeds in brackets. In the figures, a "
        "light dot is a run.",
        [_pivot(full, ["variant"], "task", "score")],
        figures,
    )


def _training_set_size(frame: DataFrame) -> Iterator[Section]:
    frame = frame[frame.groupby(["task", "variant"])["share"].transform("nunique") > 1]
    figures = {}
    for task, rows in frame.groupby("task"):
        figure, (axis,) = panels(3.2)
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
        table = _pivot(frame, ["task", "variant"], "share", "score")
        percent = {share: f"{share:g} %" for share in set(frame["share"])}
        yield Section(
            "Score by training-set size",
            "The score of each variant by the share of the training data, as in figure 1 of the ELMo paper.",
            [table.rename(columns=percent)],
            figures,
        )


def _label_scores(full: DataFrame) -> Iterator[Section]:
    rows = DataFrame(
        [
            {"task": run.task, "variant": run.variant, "label": found[1], "F1": 100 * score}
            for run in full.itertuples()
            for key, score in run.metrics.items()
            if (found := LABEL_F1.fullmatch(key))
        ]
    )
    if len(rows):
        yield Section(
            "Scores of labels",
            "The F1 of each label on the validation data, in percent, of models with verbose metrics.",
            [_pivot(rows, ["task", "label"], "variant", "F1")],
        )


def _layer_weights(full: DataFrame) -> Iterator[Section]:
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
        figure, (axis,) = panels(1.1 + 0.35 * len(weights))
        weights.plot.barh(stacked=True, ax=axis, colormap="viridis", legend=False)
        axis.set_yticks(range(len(weights)), labels=[fill(f"{variant}, {at}", 24) for variant, at in weights.index])
        axis.set(xlim=(0, 1), xlabel=f"Weight of the layer on {group['data'].iloc[0]}", ylabel="")
        axis.grid(visible=False, axis="y")
        axis.invert_yaxis()
        add_legend(figure, axis)
        figures[f"Layer weights, {task}"] = figure
    yield Section(
        "Layer weights",
        "The weight of each layer of the biLM at the input and the output of the task RNN: softmax(w), which sums to "
        "1, as in figure 2 of the ELMo paper. Layer 0 is the token vector, which does not depend on context. γ scales "
        "the sum.",
        [_pivot(rows, ["task", "variant", "at"], "part", "value")],
        figures,
    )


def _learning_curves(full: DataFrame) -> Section:
    figures = {}
    for task, rows in full.groupby("task"):
        variants = rows.groupby("variant")
        figure, axes = panels(0.6 + 1.8 * ceil(len(variants) / 2), len(variants))
        for axis, (variant, group) in zip(axes, variants, strict=True):
            for run in group.itertuples():
                scores = {"training": run.training, "validation": run.validation}
                DataFrame(scores, index=range(1, len(run.validation) + 1)).dropna(axis="columns", how="all").plot(
                    ax=axis,
                    color={"training": ORANGE, "validation": BLUE},
                    style={"training": "--", "validation": "-"},
                    lw=1,
                    marker=".",
                    legend=False,
                )
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
    return Section("Learning curves", "The score after each epoch, one line per seed.", [], figures)


def _perplexities(full: DataFrame) -> Iterator[Section]:
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
        yield Section(
            "Pretraining",
            "The perplexity of each direction of a biLM on the validation text at the best epoch, over the full "
            "softmax. Compare only runs with the same vocabulary and the same text.",
            [DataFrame(rows).round(4)],
        )


def _all_runs(frame: DataFrame, uncounted: Sequence[Uncounted]) -> Section:
    shown = frame[["name", "task", "variant", "share", "seed", "score", "best_epoch", "time", "ended", "commit"]]
    listed = [DataFrame(uncounted)] if uncounted else []
    return Section(
        "Runs",
        "All runs that the tables count, and the runs that are not counted.",
        [shown.round(2).rename(columns={"share": "data, %", "best_epoch": "best epoch"}), *listed],
    )
