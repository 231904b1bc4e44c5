"""Draw the mean score of the tasks against the time of training.

uv run python -m experiments.why_elmo.plot docs/images/why_elmo.svg runs/why_elmo runs/why_elmo_2h \\
    --more-text runs/why_elmo_24m
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Optional

import matplotlib
import matplotlib.pyplot as plt

from experiments.why_elmo.__main__ import NAMES
from experiments.why_elmo.table import results
from experiments.why_elmo.tasks import FINE_TUNED, SEEDS, TASKS, TOGETHER, ToolRun
from experiments.why_elmo.training import HOUR

ENGLISH_TINY_HOURS = 8
"""Core-hours of the training of `english-tiny` (docs/guides/pretrain.md)."""


def score(runs: Path, name: str) -> Optional[float]:
    """Return the mean score of the tasks in percent, or `None` unless every task was trained with some seed."""
    found = [
        [s for seed in SEEDS if (s := ToolRun(runs / "tasks", task, name, seed).score("best_validation")) is not None]
        for task in TASKS
    ]
    return mean(map(mean, found)) if all(found) else None


def hours(runs: Path, name: str) -> float:
    """Return the core-hours of the training of a tool, or of several."""
    return sum(
        ENGLISH_TINY_HOURS if tool == "english_tiny" else sum(r["cpu_seconds"] for r in results(runs, tool)) / HOUR
        for tool in name.split("+")
    )


def points(folders: Sequence[Path], name: str) -> list[tuple[float, float]]:
    """Return the hours and the mean score of a tool in each folder of runs that has both."""
    return [(hours(runs, name), found) for runs in folders if (found := score(runs, name)) is not None]


def draw(folders: Sequence[Path], more_text: Sequence[Path], output: Path) -> None:
    """Draw a line for each tool, with a point for each folder of runs, and a level for random weights.

    Runs on more text are empty circles, which no line joins.
    """
    matplotlib.rcParams["svg.fonttype"] = "none"
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for name in [*NAMES, *TOGETHER, FINE_TUNED]:
        line, circles = points(folders, name), points(more_text, name)
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
    parser.add_argument("runs", type=Path, nargs="+", help="folders of `python -m experiments.why_elmo`")
    parser.add_argument("--more-text", type=Path, nargs="+", default=[], help="such folders with more text")
    args = parser.parse_args()
    draw(args.runs, args.more_text, args.output)


if __name__ == "__main__":
    main()
