"""Draw the mean score of the tasks against the time of training, from the files of `results`.

results=experiments/why_elmo/results
uv run python -m experiments.why_elmo.plot docs/images/why_elmo.svg $results/6m.jsonl $results/6m_2h.jsonl \\
    --more-text $results/24m.jsonl
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any, Optional

import matplotlib
import matplotlib.pyplot as plt

from experiments.why_elmo.__main__ import NAMES
from experiments.why_elmo.table import trainings
from experiments.why_elmo.tasks import DEFAULT, FINE_TUNED, TOGETHER
from experiments.why_elmo.training import HOUR

ENGLISH_TINY_HOURS = 8
"""Core-hours of the training of `english-tiny` (docs/guides/pretrain.md)."""
Facts = list[dict[str, Any]]
"""All that was measured in one folder of runs: the lines of a file of results."""


def read(path: str) -> Facts:
    """Read a file of results."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def score(facts: Facts, name: str) -> Optional[float]:
    """Return the mean score of the tasks in percent, or `None` unless every task was trained with some seed."""
    runs = [fact for fact in facts if fact.get("run") == name and fact["fraction"] == 1]
    found = [[run["score"] for run in runs if run["task"] == task] for task in DEFAULT]
    return mean(map(mean, found)) if all(found) else None


def hours(facts: Facts, name: str) -> float:
    """Return the core-hours of the training of a tool, or of several."""
    seconds = {fact["training"]: fact["cpu_seconds"] for fact in facts if "training" in fact}
    return sum(
        ENGLISH_TINY_HOURS if tool == "english_tiny" else sum(seconds.get(part, 0) for part in trainings(tool)) / HOUR
        for tool in name.split("+")
    )


def points(files: Sequence[Facts], name: str) -> list[tuple[float, float]]:
    """Return the hours and the mean score of a tool in each file of results that has both."""
    return [(hours(facts, name), found) for facts in files if (found := score(facts, name)) is not None]


def draw(files: Sequence[Facts], more_text: Sequence[Facts], output: Path) -> None:
    """Draw a line for each tool, with a point for each file of results, and a level for random weights.

    Runs on more text are empty circles, which no line joins.
    """
    matplotlib.rcParams["svg.fonttype"] = "none"
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for name in [*NAMES, *TOGETHER, FINE_TUNED]:
        line, circles = points(files, name), points(more_text, name)
        if not line and not circles:
            continue
        if name == "random":
            axes.axhline(line[-1][1], color="gray", linestyle="dotted")
            axes.text(1, line[-1][1], name, transform=axes.get_yaxis_transform(), ha="right", va="bottom")
            continue
        color = axes.plot([], [], marker="o", label=name)[0].get_color()  # for the legend
        axes.plot([x for x, _ in line], [y for _, y in line], marker="o", color=color)
        axes.plot([x for x, _ in circles], [y for _, y in circles], "o", color=color, fillstyle="none")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("core-hours of training")
    axes.set_ylabel("mean score of the five tasks, %")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(output)


def main() -> None:
    """Parse the command line and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the image; its suffix is its format")
    parser.add_argument("results", type=read, nargs="+", help="files of `python -m experiments.why_elmo RUNS results`")
    parser.add_argument("--more-text", type=read, nargs="+", default=[], help="such files of runs with more text")
    args = parser.parse_args()
    draw(args.results, args.more_text, args.output)


if __name__ == "__main__":
    main()
