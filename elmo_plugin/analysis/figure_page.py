"""Write a page of tables and figures twice: in Markdown with SVG files, and in HTML that needs no other file."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, select_autoescape
from matplotlib import style
from matplotlib.figure import Figure
from pandas import DataFrame

from elmo_plugin.analysis.page import plain, table
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
        names = sorted(path.name for path in partial.iterdir())
    return [output / name for name in names]


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
