"""Write a report about finished runs: find them, read their weights, render tables and figures."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Optional

from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.confusion import CONFUSION, Confusion, confusion
from elmo_plugin.analysis.layer_weights import LAYER_WEIGHTS, LearnedMix, layer_weights
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
    findings = Findings()
    readers: Any = ((findings.mixes, layer_weights), (findings.confusions, confusion))
    for run in Tqdm.tqdm(runs, desc="reading weights", unit="run"):
        for found, read in readers:
            try:
                if value := read(run.folder):
                    found[run] = value
            except ConfigurationError as error:
                findings.errors.append(Unread(run.name, str(error)))
        if keep:
            _write(run.folder, findings.mixes.get(run), findings.confusions.get(run))
    contents = render(paths, runs, uncounted, findings)
    with atomic_folder(output, last="report.md") as partial:
        for name, content in contents.items():
            (partial / name).write_bytes(content)
    return Report(runs, uncounted, [output / name for name in sorted(contents)])


def keep(folder: Path) -> None:
    """Write what a report needs of a run's weights to small files in its folder, so that the weights may be deleted.

    The files are `layer_weights.json` and, for a classifier, `confusion.json`. Raises `ConfigurationError` if the
    weights cannot be read or the validation data cannot be labelled.
    """
    _write(folder, layer_weights(folder), confusion(folder))


def _write(folder: Path, mixes: Optional[dict[str, LearnedMix]], matrix: Optional[Confusion]) -> None:
    contents: dict[str, Any] = {}
    if mixes:
        contents[LAYER_WEIGHTS] = {place: mix._asdict() for place, mix in mixes.items()}
    if matrix:
        contents[CONFUSION] = matrix._asdict()
    for name, content in contents.items():
        with atomic_file(folder / name) as partial:
            partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
