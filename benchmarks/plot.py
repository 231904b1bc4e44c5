"""Curves on paper. Matplotlib is imported when it is needed: nothing else here needs it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.growth import Curve

INSTALL = "matplotlib is not installed; `pip install 'elmo-plugin[report]'` brings it"
PANEL = (3.6, 3.2)
"""Inches, width and height."""


def draw(curves: "Sequence[Curve]", path: Path) -> bool:
    """A panel for each pair of cost and work, logarithmic both ways; False if there is no matplotlib."""
    try:
        from matplotlib import pyplot
    except ImportError:
        return False
    panels = list(dict.fromkeys((curve.of, curve.against) for curve in curves))
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(PANEL[0] * len(panels), PANEL[1]), layout="constrained", squeeze=False
    )
    for axis, panel in zip(axes[0], panels, strict=True):
        shown = [curve for curve in curves if (curve.of, curve.against) == panel]
        for curve in shown:
            name = curve.contestant.replace("`", "")
            axis.plot(curve.sizes, curve.costs, marker="o", label=f"{name}, slope {curve.slope:.2f}")
        finish(axis, *panel, shown[0].sizes)
    figure.savefig(path)
    pyplot.close(figure)
    return True


def finish(axis: Any, of: str, against: str, sizes: Sequence[int]) -> None:
    """Names, logarithmic scales, and marks at the sizes that were measured."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axis.set(xscale="log", yscale="log", xlabel=against, ylabel="seconds" if of == "time" else "MiB beside the model")
    axis.set_xticks(sizes, labels=[f"{size:,}" for size in sizes])
    axis.set_xticks([], minor=True)
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    low, high = axis.get_ylim()
    axis.set_ylim(low / 2, high * 4)  # a flat curve looks flat, and the legend has room
    axis.grid(alpha=0.3)
    axis.legend(fontsize="x-small", frameon=False, loc="upper left")
