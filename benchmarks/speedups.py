"""Draw the speed-ups of the first table of `docs/benchmarks.md`, whose cells end in `10.24 ×`.

python -m benchmarks.speedups docs/benchmarks.md docs/images/speedups.svg
"""

import argparse
import re
from itertools import dropwhile, takewhile
from pathlib import Path
from textwrap import fill

import matplotlib
from matplotlib.figure import Figure

SPEEDUP = re.compile(r"([\d.]+) ×")


def read(page: Path) -> tuple[list[str], dict[str, list[float]]]:
    """Return the series of the first table of a page, and the speed-up of each series in each row that has them."""
    lines = dropwhile(lambda line: not line.startswith("|"), page.read_text(encoding="utf-8").splitlines())
    head, _, *rows = ([cell.strip() for cell in line.strip("| ").split(" | ")] for line in takewhile(bool, lines))
    found = {row[0]: [float(number) for cell in row for number in SPEEDUP.findall(cell)] for row in rows}
    return head[-2:], {name: numbers for name, numbers in found.items() if numbers}


def draw(series: list[str], rows: dict[str, list[float]], output: Path) -> None:
    """Draw a bar for each speed-up, with its number, and a line at AllenNLP's own speed."""
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "speedups", "font.size": 11})
    figure = Figure(figsize=(6, 1.2 + 0.62 * len(rows)), layout="constrained")
    axis = figure.subplots()
    for number, (name, color) in enumerate(zip(series, ("#0072B2", "#D55E00"), strict=True)):
        places = [place + 0.38 * (number - 0.5) for place in range(len(rows))]
        bars = axis.barh(places, [values[number] for values in rows.values()], 0.34, color=color, label=name)
        axis.bar_label(bars, fmt="{:.1f} ×", padding=3, fontsize=9)
    axis.axvline(1, color="gray", linestyle="dotted")
    axis.set_yticks(range(len(rows)), labels=[fill(name, 20) for name in rows])
    axis.invert_yaxis()
    axis.margins(x=0.12)
    axis.set_xlabel("times as fast as AllenNLP (dotted line)")
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside upper center", ncols=2)
    figure.savefig(output, metadata={"Date": None})


def main() -> None:
    """Parse the command line and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("output", type=Path, help="the image; its suffix is its format")
    args = parser.parse_args()
    draw(*read(args.page), args.output)


if __name__ == "__main__":
    main()
