"""Write the pages that need the extra `report`: a report about finished runs, and the uses of words in a text."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Optional

from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.from_weights import (
    CONFUSION,
    LAYER_WEIGHTS,
    Confusion,
    LearnedMix,
    read_confusion,
    read_layer_weights,
)
from elmo_plugin.analysis.nearest_contexts import Found, Query
from elmo_plugin.analysis.runs import Run, Unread, find_runs
from elmo_plugin.common import atomic_file, atomic_folder


class Report(NamedTuple):
    """The runs that the report counts, the runs that it only lists, and the files written."""

    runs: list[Run]
    uncounted: list[Unread]
    files: list[Path]


@dataclass
class Findings:
    """What the weights of the runs tell: layer weights, confusion matrices, and where reading them failed."""

    mixes: dict[Run, dict[str, LearnedMix]] = field(default_factory=dict)
    confusions: dict[Run, Confusion] = field(default_factory=dict)
    errors: list[Unread] = field(default_factory=list)


def write_report(paths: Sequence[Path], output: Path, keep: bool = False, names: Optional[str] = None) -> Report:
    """Write a report about all runs in or below `paths`: `report.md` with SVG files, and `report.html` in one file.

    The same runs give the same bytes. All files are written to a temporary folder and renamed together.

    ```python
    write_report([Path("runs")], Path("report"))
    ```

    # Parameters

    paths : serialization folders of `elmo-plugin train`, or folders that contain some at any depth
    output : the folder to write to
    keep : also write layer weights and confusion matrices to small files in the runs' folders
    names : where the end of a run's path has its TASK, VARIANT and SEED, such as `VARIANT/TASK_SEED`

    Raises `ConfigurationError` if no run is finished, if the libraries of the `report` extra are not installed, or if
    `output` cannot be written.
    """
    with _report_extra():
        from elmo_plugin.analysis.rendering import render
    runs, uncounted = find_runs(paths, names)
    findings = Findings()
    readers: Any = ((findings.mixes, read_layer_weights), (findings.confusions, read_confusion))
    for run in Tqdm.tqdm(runs, desc="reading weights", unit="run"):
        for found, read in readers:
            try:
                if value := read(run.folder):
                    found[run] = value
            except ConfigurationError as error:
                findings.errors.append(Unread(run.name, str(error)))
        if keep:
            _write_findings(run.folder, findings.mixes.get(run), findings.confusions.get(run))
    contents = render(paths, runs, uncounted, findings)
    return Report(runs, uncounted, _write_page(output, contents, last="report.md"))


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

    Returns the files. Raises `ConfigurationError` if the libraries of the `report` extra are not installed, or if
    `output` cannot be written.
    """
    with _report_extra():
        from elmo_plugin.analysis.rendering import render_uses
    return _write_page(output, render_uses(queries, found, layer, k, senses), last="contexts.md")


def keep_findings(folder: Path) -> None:
    """Write what a report needs of a run's weights to small files in its folder, so that the weights may be deleted.

    The files are `layer_weights.json` and, for a classifier, `confusion.json`. Raises `ConfigurationError` if the
    weights cannot be read or the validation data cannot be labelled.
    """
    _write_findings(folder, read_layer_weights(folder), read_confusion(folder))


@contextmanager
def _report_extra() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            f"{error.name} is not installed; install it with `pip install 'elmo-plugin[report]'`"
        ) from error


def _write_page(output: Path, contents: Mapping[str, bytes], last: str) -> list[Path]:
    with atomic_folder(output, last) as partial:
        for name, content in contents.items():
            (partial / name).write_bytes(content)
    return [output / name for name in sorted(contents)]


def _write_findings(folder: Path, mixes: Optional[dict[str, LearnedMix]], matrix: Optional[Confusion]) -> None:
    contents: dict[str, Any] = {}
    if mixes:
        contents[LAYER_WEIGHTS] = {place: mix._asdict() for place, mix in mixes.items()}
    if matrix:
        contents[CONFUSION] = matrix._asdict()
    for name, content in contents.items():
        with atomic_file(folder / name) as partial:
            partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
