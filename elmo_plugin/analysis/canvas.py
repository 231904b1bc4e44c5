"""Paper to draw on, the only place that knows matplotlib: figures of panels, one style, the same bytes each time."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from textwrap import fill
from typing import Any

from allennlp.common.checks import ConfigurationError

BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"
"""Told apart by colour-blind eyes (Okabe & Ito 2008, jfly.uni-koeln.de/color)."""
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW)
GREY = "#6E6E6E"
"""Of what has no ELMo."""

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
    "hatch.linewidth": 0.6,
}
DOTS_PER_INCH = 110


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in our style, whatever the user's is. Raises `ConfigurationError` where matplotlib is not installed."""
    try:
        from matplotlib import style
    except ImportError as error:
        raise ConfigurationError(
            "matplotlib is not installed; `pip install 'elmo-plugin[report]'` brings it"
        ) from error
    with style.context(["default", STYLE]):
        yield


def panels(count: int, columns: int, size: tuple[float, float], **share: Any) -> tuple[Any, list[Any]]:
    """A figure and the axes of as many panels, each of a size in inches, in rows of as many as `columns` at most."""
    from matplotlib.figure import Figure

    columns = min(count, columns)
    rows = -(-count // columns)
    figure = Figure(figsize=(columns * size[0], rows * size[1]), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, **share).flat)
    for empty in axes[count:]:
        empty.set_axis_off()
    if share.get("sharex"):  # the lowest panel of a column that is shorter than the others
        for axis in axes[max(0, count - columns) : count]:
            axis.tick_params(labelbottom=True)
    return figure, axes[:count]


def wrapped(text: str, inches: float) -> str:
    """A title in as many lines as a panel of that width needs."""
    return fill(text, int(11 * inches))


def whole_numbers(axis: Any) -> None:
    """Ticks at whole numbers only, on the x axis."""
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))


def plain_log(set_scale: Callable[[str], None], axis: Any) -> None:
    """Make the x or the y axis logarithmic, with numbers as people write them, at 1, 2 and 5."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    set_scale("log")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def label_ends(axis: Any, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Write beside the ends of lines, (x, y, text, colour) each, moved apart where they would cover each other."""
    low, high = sorted(axis.transData.transform([(1, limit) for limit in axis.get_ylim()])[:, 1])
    height = (high - low) * 0.09
    at = [axis.transData.transform((x, y))[1] for x, y, _, _ in ends]
    for (x, y, text, colour), here, there in zip(ends, at, spread(at, height), strict=True):
        points = (there - here) * 72 / axis.figure.dpi
        place = {"xytext": (7, points), "textcoords": "offset points", "va": "center", "annotation_clip": False}
        axis.annotate(text, (x, y), color=colour, bbox={"fc": "white", "ec": "none", "pad": 1, "alpha": 0.8}, **place)


def spread(positions: Sequence[float], gap: float) -> list[float]:
    """Positions moved up and down as little as it takes for a gap between each two, in the same order of size."""
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    blocks: list[tuple[float, int]] = []  # the middle of neighbours that touch, and their number
    for i in order:
        middle, count = positions[i], 1
        while blocks and middle - blocks[-1][0] < gap * (count + blocks[-1][1]) / 2:
            below, size = blocks.pop()
            middle, count = (middle * count + below * size) / (count + size), count + size
        blocks.append((middle, count))
    moved = [middle + gap * (k - (count - 1) / 2) for middle, count in blocks for k in range(count)]
    return [moved[order.index(i)] for i in range(len(positions))]


def heat_map(axis: Any, values: Sequence[Sequence[float]], texts: Sequence[Sequence[str]]) -> None:
    """Shares from 0, white, to 1, blue, with a text in each; NaN is left empty."""
    axis.grid(False)
    axis.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    for y, (row, said) in enumerate(zip(values, texts, strict=True)):
        for x, (value, text) in enumerate(zip(row, said, strict=True)):
            axis.text(x, y, text, ha="center", va="center", color="white" if value > 0.55 else "#222222")


def png(figure: Any) -> bytes:
    """A figure as a file of few colours, without the date or the program."""
    from PIL import Image

    drawn, packed = BytesIO(), BytesIO()
    figure.savefig(drawn, format="png", dpi=DOTS_PER_INCH, facecolor="white")
    Image.open(drawn).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(packed, "png", optimize=True)
    return packed.getvalue()
