"""Write the pages that need the extra `report`: a report about finished runs, and the uses of words in a text."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Optional

from elmo_plugin.analysis.nearest_contexts import Found, Query
from elmo_plugin.analysis.runs import Run, Uncounted, find_runs
from elmo_plugin.common import extra


class Report(NamedTuple):
    """The runs that the report counts, the runs that it only lists, and the files written."""

    runs: list[Run]
    uncounted: list[Uncounted]
    files: list[Path]


def write_report(paths: Sequence[Path], output: Path, names: Optional[str] = None) -> Report:
    """Write a report about all runs in or below `paths`: `report.md` with SVG files, and `report.html` in one file.

    The same runs give the same bytes.

    # Parameters

    paths : serialization folders of `elmo-plugin train`, or folders that contain some at any depth
    output : the folder to write to
    names : where the end of a run's path has its TASK, VARIANT and SEED, such as `VARIANT/TASK_SEED`

    Raises `ConfigurationError` if no run is finished or the libraries of the `report` extra are not installed.
    """
    with extra("report"):
        from elmo_plugin.analysis.report_page import write
    runs, uncounted = find_runs(paths, names)
    return Report(runs, uncounted, write(output, paths, runs, uncounted))


def write_contexts(
    output: Path,
    queries: Sequence[Query],
    found: Sequence[Found],
    layer: int,
    k: int,
    senses: Optional[Mapping[tuple[int, int], str]] = None,
) -> list[Path]:
    """Draw the uses of each query's word in two dimensions: `contexts.md` with SVG files, and `contexts.html`.

    The dimensions are the first two principal components of the vectors of a layer. Colours show the senses, or which
    uses are nearest to the query.

    # Parameters

    output : the folder to write to
    found : what `search` found for the queries by the vectors of `layer`, with their `uses`
    k : how many of the nearest uses to number and to list
    senses : maps the line, from 1, and the position of a token to its sense

    Returns the files. Raises `ConfigurationError` if the libraries of the `report` extra are not installed.
    """
    with extra("report"):
        from elmo_plugin.analysis.uses_page import write
    return write(output, queries, found, layer, k, senses)
