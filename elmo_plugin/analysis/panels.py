"""Lay out and style the panels of figures with matplotlib: grids, ticks, legends, heat maps, SVG files."""

import math
from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from typing import Any

from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"
"""Colours that colour-blind readers can tell apart (Okabe & Ito 2008, jfly.uni-koeln.de/color)."""
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW)
GREY = "#6E6E6E"
STYLE = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.7,
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "svg.fonttype": "none",  # text stays text: smaller files, which can be searched
    "svg.hashsalt": "elmo-plugin",  # the same ids each time
    "text.parse_math": False,  # a dollar in a name is a dollar
}
styled = style.context(["default", STYLE])
"""A decorator for functions that draw or save figures: they use our style instead of the user's."""


@styled
def svg(figure: Figure) -> bytes:
    """Return a figure as an SVG file without a date, so that the same figure gives the same bytes."""
    file = BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def grid(
    lengths: Sequence[int], heights: Sequence[float], width: float, margin: float = 0.0, **share: Any
) -> tuple[Figure, list[Any]]:
    """Return a figure and its rows of panels: row i has `lengths[i]` panels of `width` × `heights[i]` inches.

    `margin` adds inches for text beside the panels.
    """
    figure = Figure(figsize=(max(lengths) * width + margin, sum(heights) + 0.4), layout="constrained")
    axes = figure.subplots(len(lengths), max(lengths), squeeze=False, height_ratios=heights, **share)
    for row, length in zip(axes, lengths, strict=True):
        for unused in row[length:]:
            unused.remove()
    return figure, [list(row[:length]) for row, length in zip(axes, lengths, strict=True)]


def wrapped(
    count: int, columns: int, size: tuple[float, float], margin: float = 0.0, **share: Any
) -> tuple[Figure, list[Any]]:
    """Return a figure and `count` panels of `size` inches, at most `columns` side by side."""
    lengths = [min(columns, count - i) for i in range(0, count, columns)]
    figure, rows = grid(lengths, [size[1]] * len(lengths), size[0], margin, **share)
    panels = [axis for row in rows for axis in row]
    for axis in panels:
        axis.tick_params(labelbottom=True)  # panels that share an axis would have labels in the last row only
    return figure, panels


def share_span(axes: Sequence[Any], percent: bool) -> None:
    """Let x axes span equally many units around their own data, so that equal differences look equal."""
    span = max(high - low for low, high in (axis.get_xlim() for axis in axes))
    for axis in axes:
        left = sum(axis.get_xlim()) / 2 - span / 2
        left = min(max(left, 0), 100 - span) if percent and span < 100 else left
        axis.set_xlim(left, left + span)


def legend_beside(axis: Any, lines: Iterable[tuple[str, Any, float]]) -> None:
    """Write the names of lines to the right of a panel, in their colours, in the order of their last values.

    A line is its name, its matplotlib handle and its last value.
    """
    ordered = sorted(lines, key=lambda line: -line[2] if math.isfinite(line[2]) else math.inf)
    axis.legend(
        [handle for _, handle, _ in ordered],
        [name for name, _, _ in ordered],
        loc="center left",
        bbox_to_anchor=(1, 0.5),
        labelcolor="linecolor",
    )


def label_width(labels: Iterable[str]) -> float:
    """Return the width in inches of the longest label of an axis."""
    return 0.2 + 0.075 * max(map(len, labels))


def colour_bar(figure: Figure, mesh: Any, axes: Sequence[Any], label: str) -> None:
    """Draw the scale of heat maps at the upper right."""
    shrink = min(1, 2 / figure.get_figheight())
    figure.colorbar(mesh, ax=axes, label=label, shrink=shrink, anchor=(0, 1))


def whole_numbers(axis: Any) -> None:
    """Put the ticks of the x axis at whole numbers only."""
    axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))


def plain_log(set_scale: Callable[[str], None], axis: Any) -> None:
    """Make the x or the y axis logarithmic, with ticks at 1, 2, 3 and 5 written as plain numbers."""
    set_scale("log")
    axis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def heat_map(
    axis: Any, values: Sequence[Sequence[float]], columns: Sequence[str], rows: Sequence[str], number: str
) -> Any:
    """Draw shares from 0 (white) to 1 (blue), each in the format `number`. Return the mesh, for `colour_bar`.

    *Shape:* values (rows, columns); a short row leaves cells empty.
    """
    padded = [[*row, *[math.nan] * (len(columns) - len(row))] for row in values]
    axis.grid(False)
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    mesh = axis.pcolormesh(padded, cmap="Blues", vmin=0, vmax=1, edgecolors="white", linewidth=0.5)
    for y, row in enumerate(values):
        for x, value in enumerate(row):
            colour = "white" if value > 0.55 else "#222222"
            axis.text(x + 0.5, y + 0.5, number.format(value), ha="center", va="center", color=colour)
    axis.set_xticks([x + 0.5 for x in range(len(columns))], labels=columns)
    axis.set_yticks([y + 0.5 for y in range(len(rows))], labels=rows)
    axis.set_ylim(len(rows), 0)
    return mesh
