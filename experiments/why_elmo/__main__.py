"""Compare ELMo with what people would train instead, on the same text.

`train` trains each tool on the same text for the same processor time, one thread each. `vectors` writes the vectors of
the tools whose training is complete for the sentences of the tasks, `tasks` trains a tagger or classifier on each file
of vectors, `table` prints the results, and `results` prints all that was measured as lines of JSON.
Each command leaves out what is done; a killed one continues.

A task is a config of training_configs/tag or classify; --tasks chooses others than those of the published comparison.

  export SST=… WNUT17=… UD_EWT=… CONLL2000=… LITBANK=…
  uv pip install --no-deps --target runs/why_elmo/packages gensim==4.4.0
  uv run python -m experiments.why_elmo runs/why_elmo train vectors tasks table --text TEXT

TEXT is a folder with text shards train-*.txt, heldout.txt and heldout_sample.txt, one tokenized sentence per line.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Optional

from experiments import grid
from experiments.run import CONFIGS, end_with_parent
from experiments.why_elmo.table import facts, lines
from experiments.why_elmo.tasks import DEFAULT, FINE_TUNED, FRACTIONS, POSSIBLE, SEEDS, TOGETHER, ToolRun, train_task
from experiments.why_elmo.training import HOUR, Training
from experiments.why_elmo.vectors import write_vectors

PACKAGES = "packages"
"""The folder of RUNS with packages that are not in the environment."""


class Tool(NamedTuple):
    """A tool: the module of this package, its functions, and its share of the processor time of a training.

    `file` is a pattern for the files that one needs to embed. `after` names the trainings of a tool with several.
    """

    module: str
    file: str
    train: Optional[str] = None
    embedder: Optional[str] = None
    share: float = 1.0
    after: tuple[str, ...] = ()

    def call(self, function: str, run: Training) -> Any:
        """Call a function of the module. Only the process that works with a tool imports it."""
        return getattr(importlib.import_module(f"experiments.why_elmo.{self.module}"), function)(run)


TOOLS = {
    "ours": Tool("ours", "run/model.tar.gz", "train", "embedder"),
    "bert": Tool("transformer", "model/*", "train_bert", "embedder"),
    "flair_forward": Tool("flair_lm", "run/best-lm.pt", "train_forward", share=0.5),
    "fasttext": Tool("gensim_fasttext", "vectors*", "train", "embedder"),
    "flair_backward": Tool("flair_lm", "run/best-lm.pt", "train_backward", share=0.5),
    "flair": Tool("flair_lm", "", None, "embedder", after=("flair_forward", "flair_backward")),
    "gpt": Tool("transformer", "model/*", "train_gpt", "embedder"),
    "spacy": Tool("spacy_tok2vec", "run/model-last.bin", "train", "embedder"),
    "random": Tool("ours", "", None, "random_embedder"),
    "english_tiny": Tool("ours", "", None, "published_embedder"),
}
"""The tools, in the order in which they are trained."""

NAMES = [name for name, tool in TOOLS.items() if tool.embedder]
"""The tools that give vectors."""


def training(args: argparse.Namespace, name: str) -> Training:
    """Return the training of a tool."""
    return Training(args.runs / name, args.text, TOOLS[name].share * args.hours * HOUR)


def is_trained(args: argparse.Namespace, name: str) -> bool:
    """Return whether a tool has been trained, or needs no training."""
    tool = TOOLS[name]
    parts = tool.after or ([name] if tool.train else [])
    return all(training(args, part).read("result") for part in parts)


def child(args: argparse.Namespace, command: str, name: str) -> None:
    """Run a command for one tool in its own process, on one thread and at the lowest priority."""
    folder = args.runs / name
    folder.mkdir(parents=True, exist_ok=True)
    line = [sys.executable, "-m", "experiments.why_elmo", str(args.runs), command, "--text", str(args.text)]
    line += ["--hours", str(args.hours), "--tool", name, "--child", "--tasks", *args.tasks]
    process = subprocess.Popen(
        ["nice", "-n", "19", *line],
        cwd=CONFIGS.parent,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,  # closes when this process ends, which ends the child
        stdout=(folder / "log").open("a"),
        stderr=subprocess.STDOUT,
    )
    print(time.strftime("%F %T"), command, name, "started as", process.pid, flush=True)
    print(time.strftime("%F %T"), command, name, "ended with", process.wait(), flush=True)


def children(args: argparse.Namespace, command: str, names: list[str]) -> None:
    """Run a command for some tools, `jobs` at a time."""
    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(partial(child, args, command), names))


def train(args: argparse.Namespace) -> None:
    """Train all tools, or one tool in this process; `result.json` is written when a training is complete."""
    if args.tool is None:
        return children(args, "train", [name for name in TOOLS if TOOLS[name].train and not is_trained(args, name)])
    tool, run = TOOLS[args.tool], training(args, args.tool)
    run.folder.mkdir(parents=True, exist_ok=True)
    result = tool.call(tool.train or "", run)
    size = sum(path.stat().st_size for path in run.folder.glob(tool.file))
    facts = {"cpu_seconds": run.cpu_seconds(), "megabytes": size / 1e6, "calibration": run.read("calibration")}
    run.write("result", {**facts, **result})


def vectors(args: argparse.Namespace) -> None:
    """Write the vectors of all tools that are trained, or of one in this process."""
    if args.tool is None:
        return children(args, "vectors", [name for name in NAMES if is_trained(args, name)])
    folder = args.runs / "vectors" / args.tool
    todo = [task for task in args.tasks if not (folder / f"{task}.json").exists()]
    if todo:
        embed = TOOLS[args.tool].call(TOOLS[args.tool].embedder or "", training(args, args.tool))
        for task in todo:
            print(task, write_vectors(embed, task, folder), flush=True)


def tasks(args: argparse.Namespace) -> None:
    """Train the tasks on the vectors that exist, and fine-tune BERT on them; or one task in this process."""
    if args.task:
        tool, task, seed, fraction = args.task
        return train_task(ToolRun(args.runs / "tasks", task, tool, int(seed), float(fraction)))
    runs = [
        ToolRun(args.runs / "tasks", task, name, seed, fraction)
        for seed in SEEDS
        for fraction in FRACTIONS
        for name in [*NAMES, *TOGETHER, FINE_TUNED]
        for task in args.tasks
    ]
    runs.sort(key=lambda run: run.variant == FINE_TUNED)  # a run of fine-tuning takes ten times as long
    grid.train_all([run for run in runs if run.is_possible()], args.jobs)


def table(args: argparse.Namespace) -> None:
    """Print the results."""
    print(*lines(args.runs, NAMES, args.tasks), sep="\n")


def results(args: argparse.Namespace) -> None:
    """Print all that was measured, as lines of JSON."""
    print(*map(json.dumps, facts(args.runs, NAMES, args.tasks)), sep="\n")


def main() -> None:
    """Parse the command line and call its functions."""
    parser = argparse.ArgumentParser(
        "python -m experiments.why_elmo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = {"train": train, "vectors": vectors, "tasks": tasks, "table": table, "results": results}
    parser.add_argument("runs", metavar="RUNS", type=Path, help="the folder for everything that is written")
    parser.add_argument("commands", nargs="+", choices=commands)
    parser.add_argument("--text", type=Path, default=Path(), help="for `train`: the folder of the text")
    parser.add_argument("--hours", type=float, default=2, help="core-hours of a training; default: 2")
    parser.add_argument(
        "--jobs", type=int, default=2, help="the number of processes at a time, one core each; default: 2"
    )
    parser.add_argument("--tasks", nargs="+", choices=POSSIBLE, default=DEFAULT, help=f"default: {' '.join(DEFAULT)}")
    parser.add_argument("--tool", choices=TOOLS, help="train this tool, or write its vectors, in this process")
    parser.add_argument("--task", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.runs, args.text = args.runs.resolve(), args.text.resolve()
    sys.path.append(str(args.runs / PACKAGES))
    if args.child or args.task:
        end_with_parent()
    for command in args.commands:
        commands[command](args)


if __name__ == "__main__":
    main()
