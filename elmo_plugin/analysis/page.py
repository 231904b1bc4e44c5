"""A page as values, and its two forms: Markdown beside its pictures, and one HTML file with the pictures inside."""

import re
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import NamedTuple, Union


class Text(NamedTuple):
    """A paragraph; `**strong**` and backticks mean in it, and in cells, what they mean in Markdown."""

    text: str


class Table(NamedTuple):
    """Rows of cells under a head; the first `names` columns are words, the others numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1
    folded: str = ""
    """What to click on to see it, if it is long."""


class Picture(NamedTuple):
    """A PNG file, with what it shows in words."""

    name: str
    content: bytes
    shows: str


class Section(NamedTuple):
    """A heading and what stands below it."""

    title: str
    blocks: Sequence[Union[Text, Table, Picture]]


STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc; padding-bottom: .2rem; }
p, figcaption { max-width: 46rem; }
a, summary { color: #0072b2; }
nav a { margin-right: 1.2em; white-space: nowrap; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .8rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #e4e4e4; }
th { border-bottom: 2px solid #6e6e6e; vertical-align: bottom; white-space: normal; }
.name { text-align: left; }
.name:last-child { white-space: normal; }
tbody tr:hover { background: #f3f8fc; }
figure { margin: 1.5rem 0; }
img { max-width: 100%; height: auto; }
figcaption { font-size: .9rem; color: #555; }
code { font-size: .9em; background: #f4f4f4; padding: 0 .2em; }
summary { cursor: pointer; }
"""


def markdown(title: str, sections: Sequence[Section]) -> str:
    """The page in Markdown; its pictures are links to files beside it."""
    parts = [f"# {title}"]
    for section in sections:
        parts.append(f"## {section.title}")
        for block in section.blocks:
            if isinstance(block, Text):
                parts.append(block.text)
            elif isinstance(block, Picture):
                parts.append(f"![{block.shows}]({block.name})")
            else:
                lines = "\n".join(map(_markdown_row, _with_ruler(block)))
                folded = f"<details><summary>{escape(block.folded)}</summary>\n\n{lines}\n\n</details>"
                parts.append(folded if block.folded else lines)
    return "\n\n".join(parts) + "\n"


def html(title: str, sections: Sequence[Section]) -> str:
    """The page in one HTML file that needs no other."""
    links = "".join(f'<a href="#{_anchor(section)}">{escape(section.title)}</a>' for section in sections)
    body = "".join(
        f'<section id="{_anchor(section)}">\n<h2>{escape(section.title)}</h2>\n'
        + "".join(map(_html_block, section.blocks))
        + "</section>\n"
        for section in sections
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n<nav>{links}</nav>\n{body}</body>\n</html>\n"
    )


def _with_ruler(table: Table) -> Sequence[Sequence[str]]:
    ruler = ["---" if column < table.names else "---:" for column in range(len(table.head))]
    return [table.head, ruler, *table.rows]


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _html_block(block: Union[Text, Table, Picture]) -> str:
    if isinstance(block, Text):
        return f"<p>{_inline(block.text)}</p>\n"
    if isinstance(block, Picture):
        source = f"data:image/png;base64,{b64encode(block.content).decode()}"
        shows = escape(block.shows)
        return f'<figure><img src="{source}" alt="{shows}"><figcaption>{shows}</figcaption></figure>\n'
    head = _html_row("th", block.head, block.names)
    rows = "".join(_html_row("td", row, block.names) for row in block.rows)
    table = f'<div class="wide"><table>\n<thead>\n{head}</thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n'
    return f"<details><summary>{escape(block.folded)}</summary>\n{table}</details>\n" if block.folded else table


def _html_row(tag: str, cells: Sequence[str], names: int) -> str:
    opened = [f'<{tag} class="name">' if column < names else f"<{tag}>" for column in range(len(cells))]
    return (
        "<tr>" + "".join(f"{tag_}{_inline(cell)}</{tag}>" for tag_, cell in zip(opened, cells, strict=True)) + "</tr>\n"
    )


def _inline(text: str) -> str:
    strong = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escape(text))
    return re.sub(r"`(.+?)`", r"<code>\1</code>", strong)


def _anchor(section: Section) -> str:
    return re.sub(r"\W+", "-", section.title.lower()).strip("-")
