"""Draw the pages that need the extra `report`: a report about finished runs, and the uses of words in a text.

Each page is written twice: in Markdown with SVG files, and in HTML that needs no other file.
"""

import re
import shlex
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple, Optional

import numpy as np
from jinja2 import Environment, FileSystemLoader, select_autoescape
from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator, StrMethodFormatter
from pandas import DataFrame, Series

from elmo_plugin.analysis.nearest_contexts import Found, Query, Uses
from elmo_plugin.analysis.page import plain, table
from elmo_plugin.analysis.runs import Run, Uncounted
from elmo_plugin.common import atomic_folder

BLUE, ORANGE = "#0072B2", "#D55E00"
styled = style.context(
    {
        "axes.axisbelow": True,
        "axes.grid": True,
        # Colours that colour-blind readers can tell apart (Okabe & Ito 2008, jfly.uni-koeln.de/color).
        "axes.prop_cycle": f"cycler('color', ['{BLUE}', '{ORANGE}', '#009E73', '#CC79A7', '#56B4E9', '#E69F00'])",
        "axes.titlesize": "medium",
        "figure.constrained_layout.use": True,
        "font.size": 9,
        "grid.color": "#E4E4E4",
        "legend.fontsize": "small",
        "lines.markersize": 4,
        "svg.fonttype": "none",  # text stays text: smaller files, which can be searched
        "svg.hashsalt": "elmo-plugin",  # the same figure gives the same bytes
        "text.parse_math": False,  # a dollar in a name is a dollar
    }
)
"""A decorator for functions that draw figures and write pages."""
WIDTH = 4.0
"""The width of a figure in inches; a screen of 390 pixels shows it at 93 %."""
LABEL_F1 = re.compile(r"best_validation_f1-measure-(?!overall$)(.+)")
"""The key of a label's F1 in the metrics of a model with `verbose_metrics`."""
SAME_PLACE = 0.012
"""How near dots in the same place are, as a part of the plot."""


class Section(NamedTuple):
    """A part of the page: text, tables without an index, and figures by their captions."""

    title: str
    text: str
    tables: Sequence[DataFrame] = ()
    figures: Mapping[str, Figure] = {}


def write_page(output: Path, name: str, title: str, head: str, sections: Sequence[Section]) -> list[Path]:
    """Write `NAME.md`, the figures beside it, and `NAME.html` to a folder, all or nothing. Returns the files."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=select_autoescape(["html.j2"]), trim_blocks=True
    )
    environment.filters.update(plain=plain, markdown=_markdown, base64=b64encode)
    with atomic_folder(output, f"{name}.md") as partial:
        svgs: dict[str, Path] = {}
        for caption, figure in chain.from_iterable(section.figures.items() for section in sections):
            svgs[caption] = partial / f"{name}_{len(svgs) + 1}.svg"
            figure.savefig(svgs[caption], metadata={"Date": None, "Creator": None})
        for ending in ("md", "html"):
            page = environment.get_template(f"page.{ending}.j2").render(
                title=title, head=head, sections=sections, svgs=svgs
            )
            (partial / f"{name}.{ending}").write_text(page.rstrip() + "\n", encoding="utf-8")
        return [output / path.name for path in sorted(partial.iterdir())]


def _markdown(frame: DataFrame) -> str:
    cells = frame.fillna("").astype(str).map(plain).to_numpy()
    return table([plain(str(column)) for column in frame.columns], cells, names=len(frame.columns))


def panels(height: float, count: int = 1) -> tuple[Figure, Any]:
    """Return a figure of `height` inches and its `count` panels, two beside each other, with the same scores."""
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.subplots(-(-count // 2), min(count, 2), squeeze=False, sharey=True).flatten()
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def add_legend(figure: Figure, axis: Any) -> None:
    """Name the lines of a panel above all panels, each name once, in one column if a name is long."""
    lines: dict[str, Any] = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend(
        lines.values(), lines.keys(), loc="outside upper center", ncols=3 if max(map(len, lines)) <= 12 else 1
    )


@styled
def write_report_page(
    output: Path, paths: Sequence[Path], runs: Sequence[Run], uncounted: Sequence[Uncounted]
) -> list[Path]:
    """Write the files of a report to a folder, and return them. Sections without data are left out."""
    frame = DataFrame(runs).sort_values(["task", "variant", "share"], kind="stable")
    full = frame[frame["share"] == frame.groupby("task")["share"].transform("max")]
    sections = [
        _scores(full),
        _training_set_size(frame),
        _label_scores(full),
        _layer_weights(full),
        _learning_curves(full),
        _perplexities(full),
        _all_runs(frame, uncounted),
    ]
    with_data = [section for section in sections if section.figures or any(map(len, section.tables))]
    command = shlex.join(["elmo-plugin", "report-elmo", *map(str, paths), "--output", "FOLDER"])
    head = f"Finished runs: {len(runs)}. Written by: {command}"
    return write_page(output, "report", "Report on finished runs", head, with_data)


def mean_and_deviation(scores: Series) -> str:
    """Return the mean ± the sample standard deviation and, in brackets, the number of runs.

    >>> mean_and_deviation(Series([1.0, 2.0]))
    '1.50 ± 0.71 (2)'
    """
    deviation = f" ± {scores.std():.2f}" if len(scores) > 1 else ""
    return f"{scores.mean():.2f}{deviation} ({len(scores)})"


def _pivot(rows: DataFrame, index: list[str], columns: str, values: str) -> DataFrame:
    """Return the mean and the deviation of `values` for each row of `index` and each value of `columns`."""
    return rows.pivot_table(values, index, columns, mean_and_deviation).rename_axis(columns=None).reset_index()


def _figures(name: str, frame: DataFrame, draw: Callable[[DataFrame], Figure]) -> dict[str, Figure]:
    """Return a figure for each task, which `draw` makes of its rows, by its caption."""
    return {f"{name}, {task}": draw(rows) for task, rows in frame.groupby("task")}


def _scores(full: DataFrame) -> Section:
    return Section(
        "Scores",
        "The score of the best epoch on the validation data, after training on the largest share of a task's training "
        "data: the mean ± the standard deviation over seeds, and the number of seeds in brackets. In the figures, a "
        "light dot is a run.",
        [_pivot(full, ["variant"], "task", "score")],
        _figures("Scores", full, _draw_scores),
    )


def _draw_scores(rows: DataFrame) -> Figure:
    """Draw the runs of each variant, their mean and its deviation."""
    by_variant = rows.groupby("variant")["score"]
    figure, (axis,) = panels(0.8 + 0.35 * len(by_variant))
    axis.plot(rows["score"], by_variant.ngroup() + 0.2, "o", alpha=0.35, mew=0, clip_on=False)
    axis.errorbar(
        by_variant.mean(), range(len(by_variant)), xerr=by_variant.std().fillna(0), fmt="|", color=BLUE, ms=9, mew=2
    )
    axis.set(
        yticks=range(len(by_variant)),
        yticklabels=[fill(variant, 24) for variant in by_variant.groups],
        ylim=(len(by_variant) - 0.5, -0.5),
        xlabel=rows["axis"].iloc[0],
    )
    if rows["axis"].iloc[0].endswith("(%)"):
        axis.set_xlim(right=min(100, axis.get_xlim()[1]))
    return figure


def _training_set_size(frame: DataFrame) -> Section:
    frame = frame[frame.groupby(["task", "variant"])["share"].transform("nunique") > 1]
    percent = {share: f"{share:g} %" for share in set(frame["share"])}
    return Section(
        "Score by training-set size",
        "The score of each variant by the share of the training data, as in figure 1 of the ELMo paper.",
        [_pivot(frame, ["task", "variant"], "share", "score").rename(columns=percent)],
        _figures("Score by training-set size", frame, _draw_scores_by_share),
    )


def _draw_scores_by_share(rows: DataFrame) -> Figure:
    """Draw a line for each variant, with the deviations of its scores."""
    figure, (axis,) = panels(3.2)
    cells = rows.groupby(["share", "variant"])["score"]
    means = cells.mean().unstack()
    means = means[means.iloc[-1].sort_values(ascending=False).index]  # the legend names the lines from above
    means.plot(
        yerr=cells.std().unstack(),
        ax=axis,
        logx=True,
        xticks=means.index,
        xlabel="Training data (%)",
        ylabel=rows["axis"].iloc[0],
        marker="o",
        capsize=2,
        legend=False,
    )
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.xaxis.set_minor_locator(NullLocator())
    add_legend(figure, axis)
    return figure


def _label_scores(full: DataFrame) -> Section:
    rows = DataFrame(
        [
            (run.task, run.variant, found[1], 100 * score)
            for run in full.itertuples()
            for key, score in run.metrics.items()
            if (found := LABEL_F1.fullmatch(key))
        ],
        columns=["task", "variant", "label", "F1"],
    )
    return Section(
        "Scores of labels",
        "The F1 of each label on the validation data, in percent, of models with verbose metrics.",
        [_pivot(rows, ["task", "label"], "variant", "F1")],
    )


def _layer_weights(full: DataFrame) -> Section:
    rows = DataFrame(
        [
            (run.task, run.data, run.variant, place, part, value)
            for run in full.itertuples()
            for place, mix in run.mixes.items()
            for part, value in [*((f"layer {i}", weight) for i, weight in enumerate(mix.weights)), ("γ", mix.gamma)]
        ],
        columns=["task", "data", "variant", "at", "part", "value"],
    )
    return Section(
        "Layer weights",
        "The weight of each layer of the biLM at the input and the output of the task RNN: softmax(w), which sums to "
        "1, as in figure 2 of the ELMo paper. Layer 0 is the token vector, which does not depend on context. γ scales "
        "the sum.",
        [_pivot(rows, ["task", "variant", "at"], "part", "value")],
        _figures("Layer weights", rows[rows["part"] != "γ"], _draw_layer_weights),
    )


def _draw_layer_weights(rows: DataFrame) -> Figure:
    """Draw a bar for each variant and place, divided into the layers."""
    weights = rows.groupby(["variant", "at", "part"])["value"].mean().unstack("part")
    figure, (axis,) = panels(1.1 + 0.35 * len(weights))
    weights.index = [fill(f"{variant}, {at}", 24) for variant, at in weights.index]
    weights.plot.barh(
        stacked=True,
        ax=axis,
        xlim=(0, 1),
        xlabel=f"Weight of the layer on {rows['data'].iloc[0]}",
        ylabel="",
        colormap="viridis",
        legend=False,
    )
    axis.grid(visible=False, axis="y")
    axis.invert_yaxis()
    add_legend(figure, axis)
    return figure


def _learning_curves(full: DataFrame) -> Section:
    return Section(
        "Learning curves",
        "The score after each epoch, one line per seed.",
        figures=_figures("Learning curves", full, _draw_learning_curves),
    )


def _draw_learning_curves(rows: DataFrame) -> Figure:
    """Draw a panel for each variant, with the scores of each run in training and in validation."""
    variants = rows.groupby("variant")
    figure, axes = panels(0.6 + 1.8 * ceil(len(variants) / 2), len(variants))
    for axis, (variant, group) in zip(axes, variants, strict=True):
        for run in group.itertuples():
            scores = {"training": run.training, "validation": run.validation}
            DataFrame(scores, index=range(1, len(run.validation) + 1)).dropna(axis="columns", how="all").plot(
                ax=axis,
                title=fill(variant, 24),
                color={"training": ORANGE, "validation": BLUE},
                style={"training": "--", "validation": "-"},
                lw=1,
                marker=".",
                legend=False,
            )
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        if "perplexity" in rows["task"].iloc[0]:
            axis.set_yscale("log", subs=(2, 5))
            axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
            axis.yaxis.set_minor_formatter(StrMethodFormatter("{x:,g}"))
    figure.supxlabel("Epoch", fontsize="medium")
    figure.supylabel(rows["axis"].iloc[0], fontsize="medium")
    add_legend(figure, axes[0])
    return figure


def _perplexities(full: DataFrame) -> Section:
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
    return Section(
        "Pretraining",
        "The perplexity of each direction of a biLM on the validation text at the best epoch, over the full softmax. "
        "Compare only runs with the same vocabulary and the same text.",
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


@styled
def write_uses_page(
    output: Path,
    queries: Sequence[Query],
    found: Sequence[Found],
    layer: int,
    k: int,
    senses: Optional[Mapping[tuple[int, int], str]],
) -> list[Path]:
    """Draw the uses of words, by the vectors of a layer in two dimensions. Returns the files.

    `senses` maps the line, from 1, and the position of a token to its sense.
    """
    about = (
        f"Each dot is a use of the word, by its vector of layer {layer}; the star is the query. Dots that are near "
        "each other have similar vectors, as far as two principal components can show. The uses that are nearest to "
        "the query by cosine are numbered in the picture and listed in the table."
    )
    pairs = zip(queries, found, strict=True)
    sections = [_section(query, each.uses, k, senses) for query, each in pairs if each.uses is not None]
    return write_page(output, "contexts", "Uses of words in context", about, sections)


def _section(query: Query, uses: Uses, k: int, senses: Optional[Mapping[tuple[int, int], str]]) -> Section:
    sentence = _marked(query.tokens, query.position)
    if len(uses.neighbors) < 2:
        return Section(query.word, f"{sentence} – fewer than two other sentences of the text contain this word.")
    nearest = np.argsort([-use.cosine for use in uses.neighbors], kind="stable")[:k].tolist()
    texts = list(dict.fromkeys(use.text for use in uses.neighbors))
    if senses is None and len(texts) > 1:
        labels = [use.text for use in uses.neighbors]
    elif senses is None:
        labels = ["nearest" if i in nearest else "other uses" for i in range(len(uses.neighbors))]
    else:
        labels = [senses.get((use.line, use.position), "no sense") for use in uses.neighbors]
    listed = DataFrame(
        {
            "nearest": number,
            "sentence": _marked(uses.neighbors[index].tokens, uses.neighbors[index].position),
            "text": uses.neighbors[index].text,
            "sense": labels[index],
            "cosine": f"{uses.neighbors[index].cosine:.3f}",
            "line": uses.neighbors[index].line,
        }
        for number, index in enumerate(nearest, 1)
    )
    unused = ["sense"] * (not senses) + ["text"] * (len(texts) < 2)
    picture = _picture(uses.vectors, labels, nearest, (senses is None and texts) or [])
    figures = {f"{len(labels)} uses of {query.word} in two dimensions: {sentence}": picture}
    return Section(query.word, sentence, [listed.drop(columns=unused)], figures)


def _picture(vectors: np.ndarray, labels: Sequence[str], nearest: Sequence[int], order: Sequence[str]) -> Figure:
    """Draw the uses of a word by the first two principal components of their vectors, in a colour per label.

    `vectors` (1 + N, D) are those of the query and of N uses, which `labels` describe. The uses at the indices
    `nearest` get the numbers 1, 2, …  The labels are in the given order, or else the most frequent one comes first.
    """
    from sklearn.decomposition import PCA  # takes half as long as PyTorch

    components = PCA(2, random_state=0)
    query, *points = components.fit_transform(vectors)  # (2,) each
    counts = Counter(labels)
    figure, (axis,) = panels(WIDTH + 0.1 * len(counts))
    ordered = [label for label in order if label in counts] or [label for label, _ in counts.most_common()]
    for number, label in enumerate(ordered):
        x, y = np.array([point for point, each in zip(points, labels, strict=True) if each == label]).T
        look = {"color": f"C{number % 6}", "marker": "os^Dv"[number // 6 % 5]}  # there are six colours
        axis.scatter(x, y, s=14, alpha=0.6, label=f"{label} ({counts[label]})", **look)
    axis.plot(*query, color="black", ls="", marker="*", ms=12, label="the query")
    first, second = 100 * components.explained_variance_ratio_
    axis.set(
        xlabel=f"Component 1 ({first:.0f} % of the variance)", ylabel=f"Component 2 ({second:.0f} % of the variance)"
    )
    add_legend(figure, axis)
    # The numbers stand beside the plot, with a line from each to its point, so that no number hides anything. Points
    # that are drawn on top of each other share a label, such as `3, 5`.
    scaled = np.array(points) / np.maximum(np.ptp(points, axis=0), 1e-9)  # (N, 2)
    numbers: dict[int, list[int]] = {}  # by the first of the points in a place
    for number, index in enumerate(nearest, 1):
        here = (other for other in numbers if np.abs(scaled[other] - scaled[index]).max() < SAME_PLACE)
        numbers.setdefault(next(here, index), []).append(number)
    from_below = sorted(numbers, key=lambda index: float(points[index][1]))
    for height, index in zip(np.linspace(0, 1, len(numbers) + 2)[1:-1], from_below, strict=True):
        axis.annotate(
            ", ".join(map(str, numbers[index])),
            points[index],
            textcoords="axes fraction",
            xytext=(1.04, height),
            va="center",
            fontsize=min(9, 200 / len(numbers)),
            arrowprops={"arrowstyle": "-", "color": "gray", "lw": 0.5, "relpos": (0, 0.5)},
        )
    return figure


def _marked(tokens: Sequence[str], position: int) -> str:
    """Return the token in marks, and up to eight tokens before and after it."""
    start, end = max(0, position - 8), position + 9
    shown = [*tokens[start:position], f"«{tokens[position]}»", *tokens[position + 1 : end]]
    return " ".join([*["…"] * (start > 0), *shown, *["…"] * (end < len(tokens))])
