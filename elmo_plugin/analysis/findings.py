"""What only the weights of runs can tell, gathered for all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional, TypeVar

from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.confusion import Confusion, confusion, write_confusion
from elmo_plugin.analysis.layer_weights import LearnedMix, layer_weights, write_layer_weights
from elmo_plugin.analysis.runs import Run

T = TypeVar("T")


@dataclass
class Findings:
    """Layer weights and confusion matrices of the runs that have some, and what could not be read, in words."""

    layer_weights: dict[Run, dict[str, LearnedMix]] = field(default_factory=dict)
    confusions: dict[Run, Confusion] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def find(runs: Sequence[Run]) -> Findings:
    """Read what there is, from the small files of `keep` where they are there, else from weights."""
    findings = Findings()
    for run in Tqdm.tqdm(runs, desc="reading weights", unit="run"):
        if mixes := _read(layer_weights, run, findings.notes):
            findings.layer_weights[run] = mixes
        if matrix := _read(confusion, run, findings.notes):
            findings.confusions[run] = matrix
    return findings


def keep(folder: Path) -> None:
    """Write what a report reads from a run's weights into small files in its folder, so that the weights may go.

    They are `layer_weights.json` and, of a classifier, `confusion.json`. For a loop over many runs, after each.
    Raises `ConfigurationError` for weights that cannot be read, and for validation data that cannot be labelled.
    """
    _write(folder, layer_weights(folder), confusion(folder))


def keep_all(findings: Findings) -> None:
    """The same for all runs, of what was found."""
    for run in {**findings.layer_weights, **findings.confusions}:
        _write(run.folder, findings.layer_weights.get(run), findings.confusions.get(run))


def _write(folder: Path, mixes: Optional[dict[str, LearnedMix]], matrix: Optional[Confusion]) -> None:
    if mixes:
        write_layer_weights(folder, mixes)
    if matrix:
        write_confusion(folder, matrix)


def _read(read: Callable[[Path], Optional[T]], run: Run, notes: list[str]) -> Optional[T]:
    try:
        return read(run.folder)
    except ConfigurationError as error:
        notes.append(f"`{run.name}`: {error}")
        return None
