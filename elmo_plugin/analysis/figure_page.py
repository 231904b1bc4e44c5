"""Write a page of tables and figures twice: in Markdown with SVG files, and in HTML that needs no other file."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader
from matplotlib import style
from matplotlib.figure import Figure
from pandas import DataFrame

from elmo_plugin.analysis.page import plain, table

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
TEMPLATE = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True).get_template(
    "sections.html.j2"
)


class Section(NamedTuple):
    """A part of the page: text, tables without an index, and figures by their captions."""

    title: str
    text: str
    tables: Sequence[DataFrame] = ()
    figures: Mapping[str, Figure] = {}


def page_files(name: str, title: str, head: str, sections: Sequence[Section]) -> dict[str, bytes]:
    """Return the content of `NAME.md`, of the figures beside it, and of `NAME.html`."""
    blocks = [f"# {title}", plain(head)]
    files: dict[str, bytes] = {}
    images: dict[str, str] = {}
    for section in sections:
        blocks += [f"## {plain(section.title)}", plain(section.text)]
        for frame in section.tables:
            cells = [[plain(cell) for cell in row] for row in frame.fillna("").astype(str).to_numpy()]
            blocks.append(table([plain(str(column)) for column in frame.columns], cells, names=len(frame.columns)))
        for caption, figure in section.figures.items():
            file = BytesIO()
            figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
            svg = f"{name}_{len(images) + 1}.svg"
            blocks.append(f"![{plain(caption)}]({svg})")
            files[svg] = file.getvalue()
            images[caption] = f"data:image/svg+xml;base64,{b64encode(files[svg]).decode()}"
    html = TEMPLATE.render(title=title, head=head, sections=sections, images=images)
    return {**files, f"{name}.md": ("\n\n".join(blocks) + "\n").encode(), f"{name}.html": html.encode()}


def panels(count: int, height: float) -> tuple[Figure, Any]:
    """Return a figure and its `count` panels of `height` inches, two beside each other, with the same scores."""
    rows = -(-count // 2)
    figure = Figure(figsize=(WIDTH, 0.6 + rows * height))
    axes = figure.subplots(rows, min(count, 2), squeeze=False, sharey=True).flatten()
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def add_legend(figure: Figure, axis: Any) -> None:
    """Name the lines of a panel above all panels, each name once, in one column if a name is long."""
    lines: dict[str, Any] = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    columns = 3 if max(map(len, lines)) <= 12 else 1
    figure.legend(lines.values(), lines.keys(), loc="outside upper center", ncols=columns)
