"""Draw the mean score of the tasks against the time of training, from the files of `results`.

results=experiments/why_elmo/results
uv run python -m experiments.why_elmo.plot docs/images/why_elmo.svg $results/6m.jsonl $results/6m_2h.jsonl \\
    --more-text $results/24m.jsonl
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Optional

import matplotlib
import matplotlib.pyplot as plt

from experiments.why_elmo.__main__ import NAMES
from experiments.why_elmo.table import trainings
from experiments.why_elmo.tasks import DEFAULT, FINE_TUNED, TOGETHER
from experiments.why_elmo.training import HOUR

ENGLISH_TINY_HOURS = 8
"""Core-hours of the training of `english-tiny` (docs/guides/pretrain.md)."""
TITLES = {
    "ours": "ELMo",
    "fasttext": "fastText",
    "flair": "flair",
    "bert": "BERT",
    "gpt": "GPT-2",
    "spacy": "spaCy pretrain",
    "random": "random weights",
    "english_tiny": "english-tiny",
    "ours+fasttext": "ELMo + fastText",
    "english_tiny+fasttext": "english-tiny + fastText",
    "bert_fine_tuned": "BERT, fine-tuned",
}
COLORS = ["C0", "C1", "C2", "C3", "C4", "C5", "gray", "C6", "C9", "C8", "navy"]
Facts = list[dict[str, Any]]
"""All that was measured in one folder of runs: the lines of a file of results."""


def read(path: str) -> Facts:
    """Read a file of results."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def scores(facts: Facts, name: str) -> Optional[list[float]]:
    """Return the mean score of the tasks in percent for each seed, or `None` unless each was trained on every task."""
    by_seed = defaultdict(dict)
    for fact in facts:
        if fact.get("run") == name and fact["fraction"] == 1:
            by_seed[fact["seed"]][fact["task"]] = fact["score"]
    found = [mean(by_task[task] for task in DEFAULT) for by_task in by_seed.values() if {*DEFAULT} <= by_task.keys()]
    return found or None


def hours(facts: Facts, name: str) -> float:
    """Return the core-hours of the training of a tool, or of several."""
    seconds = {fact["training"]: fact["cpu_seconds"] for fact in facts if "training" in fact}
    return sum(
        ENGLISH_TINY_HOURS if tool == "english_tiny" else sum(seconds.get(part, 0) for part in trainings(tool)) / HOUR
        for tool in name.split("+")
    )


def points(files: Sequence[Facts], name: str) -> tuple[list[float], list[float], list[float]]:
    """Return the hours, the mean score and its deviation over seeds in each file of results that has the tool."""
    found = [(hours(facts, name), values) for facts in files if (values := scores(facts, name)) is not None]
    deviations = [stdev(values) if len(values) > 1 else 0.0 for _, values in found]
    return [x for x, _ in found], [mean(values) for _, values in found], deviations


def spread(heights: Sequence[float], distance: float) -> list[float]:
    """Return descending heights, moved so far apart that labels at them do not lie on each other."""
    places = list(heights)
    for _ in range(100):
        for at, (above, below) in enumerate(pairwise(places)):
            missing = max(0.0, distance - (above - below)) / 2
            places[at], places[at + 1] = above + missing, below - missing
    return places


def draw(files: Sequence[Facts], more_text: Sequence[Facts], output: Path) -> None:
    """Draw a line for each tool, with a point for each file of results, and a level for random weights.

    Bars are the standard deviation over seeds. Runs on more text are empty circles, which no line joins. The names
    stand beside the plot, in the order of the last points.
    """
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "why_elmo", "font.size": 11})
    figure, axes = plt.subplots(figsize=(6, 4.4), layout="constrained")
    names = []  # the height, the name and the colour of each
    for name, color in zip([*NAMES, *TOGETHER, FINE_TUNED], COLORS, strict=True):
        line, circles = points(files, name), points(more_text, name)
        if not line[0] and not circles[0]:
            continue
        height = (line if line[0] else circles)[1][-1]
        names.append((height, TITLES[name], color))
        if name == "random":
            axes.axhline(height, color=color, linestyle="dotted")
            continue
        axes.errorbar(*line, marker="o", markersize=5, capsize=2, color=color)
        axes.errorbar(*circles, fmt="o", markersize=6, capsize=2, color=color, fillstyle="none")
    names.sort(reverse=True)
    beside = axes.get_yaxis_transform()
    for place, (height, title, color) in zip(spread([height for height, *_ in names], 1.75), names, strict=True):
        axes.annotate(
            title, (1, height), xycoords=beside, xytext=(1.06, place), color=color, va="center",
            arrowprops={"arrowstyle": "-", "color": color, "lw": 0.6, "alpha": 0.5},
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("core-hours of training")
    axes.set_ylabel("mean score of the five tasks, %")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(output, metadata={"Date": None})


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
