"""Write a page of sections, each with paragraphs, tables and figures, in Markdown and in HTML."""

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.figure import Figure
from pandas import DataFrame

from elmo_plugin.analysis import figures
from elmo_plugin.analysis.page import plain, table

TEMPLATE = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
).get_template("sections.html.j2")


class Picture(NamedTuple):
    """A figure, the name of its file, and what it shows."""

    name: str
    caption: str
    figure: Figure


class Section(NamedTuple):
    """A part of the page."""

    title: str
    paragraphs: Sequence[str]
    tables: Sequence[DataFrame]
    pictures: Sequence[Picture] = ()


def page_files(name: str, title: str, head: str, sections: Sequence[Section]) -> dict[str, bytes]:
    """Return the content of `NAME.md`, of the figures beside it, and of `NAME.html`, which needs no other file."""
    svgs = {picture.name: figures.svg(picture.figure) for section in sections for picture in section.pictures}
    images = {name: f"data:image/svg+xml;base64,{b64encode(content).decode()}" for name, content in svgs.items()}
    html = TEMPLATE.render(title=title, head=head, sections=sections, images=images)
    blocks = [f"# {title}", plain(head)]
    for section in sections:
        blocks += [f"## {plain(section.title)}", *map(plain, section.paragraphs)]
        for frame in section.tables:
            cells = [[plain(cell) for cell in row] for row in frame.fillna("").astype(str).to_numpy()]
            blocks.append(table([plain(column) for column in frame.columns], cells, names=len(frame.columns)))
        blocks += [f"![{plain(picture.caption)}]({picture.name})" for picture in section.pictures]
    return {**svgs, f"{name}.md": ("\n\n".join(blocks) + "\n").encode(), f"{name}.html": html.encode()}
