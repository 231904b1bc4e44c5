"""A MkDocs hook that makes a notebook of each tutorial, beside its page, and puts a link to it on the page."""

import base64
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.pages import Block, blocks

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)]+\)")
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]+/([^)/]+\.png))\)")
BEFORE = (
    "Install `elmo_plugin` in the environment of this notebook. The cells write their files into the working directory."
)


def notebook(page: Path) -> nbformat.NotebookNode:
    """Return a page as a notebook: what the tests run becomes cells of code, all else stays text."""
    content, cells, position = page.read_text(encoding="utf-8"), [], 0
    for block in blocks(page):
        code = _code(block)
        if code is not None:
            cells += [_text(content[position : block.span[0]], page), nbformat.v4.new_code_cell(code.rstrip("\n"))]
            position = block.span[1]
    cells.append(_text(content[position:], page))
    cells.insert(1, nbformat.v4.new_markdown_cell(BEFORE))
    cells = [cell for cell in cells if cell.source]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"  # by default drawn anew in each build
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def _code(block: Block) -> str | None:
    if block.title:
        return f"%%writefile {block.title}\n{block.text}"
    return {"python": block.text, "sh": f"%%bash\nset -e\n{block.text}"}.get(block.language)


def _text(markdown: str, page: Path) -> nbformat.NotebookNode:
    """Return a cell of text, with its images inside and without its links to other pages, which only the site has."""
    images = {name: (page.parent / path).read_bytes() for _, path, name in IMAGE.findall(markdown)}
    source = LINK.sub(r"\1", IMAGE.sub(r"![\1](attachment:\3)", markdown)).strip()
    cell = nbformat.v4.new_markdown_cell(source)
    if images:
        cell.attachments = {name: {"image/png": base64.b64encode(image).decode()} for name, image in images.items()}
    return cell


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> None:
    """Add the notebooks to the files of the site. MkDocs calls it with all files of `docs/`."""
    for file in [file for file in files if file.src_uri.startswith("tutorials/")]:
        content = nbformat.writes(notebook(Path(file.abs_src_path or "")))
        files.append(File.generated(config, file.src_uri.replace(".md", ".ipynb"), content=content))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Put a link to the notebook below the heading of a tutorial. MkDocs calls it for each page."""
    if not page.file.src_uri.startswith("tutorials/"):
        return markdown
    name = Path(page.file.src_uri).stem
    return re.sub(r"^(# .*)$", rf"\1\n\n[Download as a notebook]({name}.ipynb)", markdown, count=1, flags=re.M)
