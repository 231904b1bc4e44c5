"""From folders to the page: find the runs, read them, say it, write it."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from elmo_plugin.analysis.findings import find, keep_all
from elmo_plugin.analysis.page import Picture, html, markdown
from elmo_plugin.analysis.runs import Run, Uncounted, find_runs
from elmo_plugin.analysis.sections import sections
from elmo_plugin.atomic_write import atomic_folder

TITLE = "What the runs reached"
MARKDOWN, HTML = "report.md", "report.html"


class Report(NamedTuple):
    """The runs that a page counts and those that it names without counting them, and the files that were written."""

    runs: list[Run]
    uncounted: list[Uncounted]
    files: list[Path]


def write_report(paths: Sequence[Path], output: Path, keep: bool = False) -> Report:
    """Write the page about all runs in folders into another: `report.md` with its pictures, and `report.html`.

    The same runs make the same bytes. The files are written beside their names and renamed together.

    # Parameters

    paths : serialization folders of `allennlp train`, or folders that hold some at any depth
    output : the folder to write into
    keep : also write what only weights can tell into small files in the runs' folders

    Raises `ConfigurationError` if there is no finished run, if matplotlib is not installed, or if `output` cannot be
    written.
    """
    runs, uncounted = find_runs(paths)
    findings = find(runs)
    if keep:
        keep_all(findings)
    page = list(sections(runs, uncounted, findings))
    contents = {block.name: block.content for section in page for block in section.blocks if isinstance(block, Picture)}
    contents |= {MARKDOWN: markdown(TITLE, page).encode(), HTML: html(TITLE, page).encode()}
    with atomic_folder(output) as partial:
        for name, content in contents.items():
            (partial / name).write_bytes(content)
    return Report(runs, uncounted, [output / name for name in sorted(contents)])
