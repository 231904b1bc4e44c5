"""Print the results of the tools in one place."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.table import Table
from experiments.grid import cell
from experiments.why_elmo.tasks import FINE_TUNED, FRACTIONS, SEEDS, TOGETHER, ToolRun
from experiments.why_elmo.training import HOUR

COSTS = ["core-hours of training", "MB", "sentences/s, embedding", "sentences/s, training a task"]
"""The headers of `costs`. Hours and seconds are processor time of one thread."""


def trainings(name: str) -> list[str]:
    """Return the names of the trainings behind some vectors, of which flair has two."""
    return {"flair": ["flair_forward", "flair_backward"], FINE_TUNED: ["bert"]}.get(name, name.split("+"))


def results(runs: Path, name: str) -> list[Any]:
    """Return the results of the trainings behind some vectors; none if one is missing."""
    paths = [runs / training / "result.json" for training in trainings(name)]
    return [json.loads(path.read_text()) for path in paths] if all(path.exists() for path in paths) else []


def measured(files: Iterable[Path]) -> dict[str, float]:
    """Return the sentences and the seconds of processor time that some files report, each in sum."""
    found = [json.loads(file.read_text()) for file in files if file.exists()]
    return {key: sum(facts[key] for facts in found) for key in ("sentences", "cpu_seconds")}


def costs(runs: Path, name: str, tasks: Sequence[str]) -> list[str]:
    """Return the cells of a tool: hours of training, megabytes, and sentences per second of processor time."""
    found = results(runs, name)
    hours = f"{sum(result['cpu_seconds'] for result in found) / HOUR:.2f}" if found else ""
    megabytes = f"{sum(result['megabytes'] for result in found):.0f}" if found else ""
    embedding = [measured(runs / f"vectors/{tool}/{task}.json" for task in tasks) for tool in name.split("+")]
    training = [measured(ToolRun(runs / "tasks", t, name, s).path() / "speed.json" for t in tasks for s in SEEDS)]
    speeds = [
        f"{parts[0]['sentences'] / seconds:,.0f}" if (seconds := sum(part["cpu_seconds"] for part in parts)) else ""
        for parts in (embedding, training)
    ]
    return [hours, megabytes, *speeds]


def facts(runs: Path, names: Sequence[str], tasks: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield all that was measured: of each training, of each file of vectors, and of each run of a task."""
    for path in sorted(runs.glob("*/result.json")):
        yield {"training": path.parent.name, **json.loads(path.read_text())}
    for path in sorted(runs.glob("vectors/*/*.json")):
        yield {"vectors": path.parent.name, "task": path.stem, **json.loads(path.read_text())}
    for name in [*names, *TOGETHER, FINE_TUNED]:
        for task, fraction, seed in product(tasks, FRACTIONS, SEEDS):
            run = ToolRun(runs / "tasks", task, name, seed, fraction)
            if (score := run.score()) is not None:
                speed = json.loads((run.path() / "speed.json").read_text())
                yield {"run": name, "task": task, "fraction": fraction, "seed": seed, "score": score, **speed}


def scores(runs: Path, name: str, fraction: float, tasks: Sequence[str]) -> list[str]:
    """Return the cells of the scores of a tool: of each task, and their mean if no task is missing."""
    by_task = [[ToolRun(runs / "tasks", task, name, seed, fraction) for seed in SEEDS] for task in tasks]
    found = [[score for run in of_task if (score := run.score()) is not None] for of_task in by_task]
    return [
        *(cell(of_task, "best_validation") for of_task in by_task),
        f"{mean(map(mean, found)):.2f}" if all(found) else "",
    ]


def lines(runs: Path, names: Sequence[str], tasks: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the tables, one for each fraction of the data; the first also has the costs."""
    together = [name for name in TOGETHER if ToolRun(runs / "tasks", tasks[0], name, SEEDS[0]).is_possible()]
    remark = f"Mean ± standard deviation over the seeds {', '.join(map(str, SEEDS))}, in percent."
    for fraction in FRACTIONS:
        is_first = fraction == FRACTIONS[0]
        header = ["", *(f"`{task}`" for task in tasks), "mean", *(COSTS if is_first else [])]
        rows = [
            [f"`{name}`", *scores(runs, name, fraction, tasks), *(costs(runs, name, tasks) if is_first else [])]
            for name in [*names, *together, FINE_TUNED]
        ]
        yield from Table(f"{100 * fraction:g} % of the data", remark, header, rows).lines()
