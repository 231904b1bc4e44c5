"""Write a report about finished runs: find them, read them, draw the figures, fill in the templates."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.findings import find, keep_all
from elmo_plugin.analysis.runs import Run, Uncounted, find_runs
from elmo_plugin.common import atomic_folder


class Report(NamedTuple):
    """The runs that the report counts, the runs that it only lists, and the files written."""

    runs: list[Run]
    uncounted: list[Uncounted]
    files: list[Path]


def write_report(paths: Sequence[Path], output: Path, keep: bool = False) -> Report:
    """Write a report about all runs in or below `paths`: `report.md` with SVG files, and `report.html` in one file.

    The same runs give the same bytes. All files are written to a temporary folder and renamed together.

    ```python
    write_report([Path("runs")], Path("report"))
    ```

    # Parameters

    paths : serialization folders of `allennlp train`, or folders that contain some at any depth
    output : the folder to write to
    keep : also write layer weights and confusion matrices to small files in the runs' folders

    Raises `ConfigurationError` if no run is finished, if the libraries of the `report` extra are not installed, or if
    `output` cannot be written.
    """
    try:
        from elmo_plugin.analysis.rendering import render
    except ImportError as error:
        raise ConfigurationError(
            f"{error.name} is not installed; install it with `pip install 'elmo-plugin[report]'`"
        ) from error
    runs, uncounted = find_runs(paths)
    findings = find(runs)
    if keep:
        keep_all(findings)
    contents = render(paths, runs, uncounted, findings)
    with atomic_folder(output, last="report.md") as partial:
        for name, content in contents.items():
            (partial / name).write_bytes(content)
    return Report(runs, uncounted, [output / name for name in sorted(contents)])
