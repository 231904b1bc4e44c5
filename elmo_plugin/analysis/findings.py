"""Read the layer weights and confusion matrices of runs, which need the weights of their models."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.confusion import Confusion, confusion, write_confusion
from elmo_plugin.analysis.layer_weights import LearnedMix, layer_weights, write_layer_weights
from elmo_plugin.analysis.runs import Run


@dataclass
class Findings:
    """The layer weights and confusion matrices of the runs that have them; (run, error) where reading failed."""

    layer_weights: dict[Run, dict[str, LearnedMix]] = field(default_factory=dict)
    confusions: dict[Run, Confusion] = field(default_factory=dict)
    errors: list[tuple[str, str]] = field(default_factory=list)


def find(runs: Sequence[Run]) -> Findings:
    """Return the layer weights and confusion matrices, from the small files that `keep` writes or from the weights."""
    findings = Findings()
    readers: Any = ((findings.layer_weights, layer_weights), (findings.confusions, confusion))
    for run in Tqdm.tqdm(runs, desc="reading weights", unit="run"):
        for found, read in readers:
            try:
                if value := read(run.folder):
                    found[run] = value
            except ConfigurationError as error:
                findings.errors.append((run.name, str(error)))
    return findings


def keep(folder: Path) -> None:
    """Write what a report needs of a run's weights to small files in its folder, so that the weights may be deleted.

    The files are `layer_weights.json` and, for a classifier, `confusion.json`. Raises `ConfigurationError` if the
    weights cannot be read or the validation data cannot be labelled.
    """
    _write(folder, layer_weights(folder), confusion(folder))


def keep_all(findings: Findings) -> None:
    """Write these small files for all runs of a report."""
    for run in {**findings.layer_weights, **findings.confusions}:
        _write(run.folder, findings.layer_weights.get(run), findings.confusions.get(run))


def _write(folder: Path, mixes: Optional[dict[str, LearnedMix]], matrix: Optional[Confusion]) -> None:
    if mixes:
        write_layer_weights(folder, mixes)
    if matrix:
        write_confusion(folder, matrix)
