"""Compare ELMo with what people would train instead.

`train` trains each tool on the same text for the same processor time, one thread each. `vectors` writes the vectors of
the tools whose training is complete for the sentences of the tasks, `tasks` trains a tagger or classifier on each file
of vectors, and `table` prints the results. Each command leaves out what is done; a killed one continues.

  export SST=… WNUT17=… UD_EWT=… CONLL2000=… LITBANK=…
  uv pip install --no-deps --target runs/why_elmo/packages gensim==4.4.0
  uv run python -m experiments.why_elmo train runs/why_elmo --text TEXT
  uv run python -m experiments.why_elmo vectors runs/why_elmo
  uv run python -m experiments.why_elmo tasks runs/why_elmo
  uv run python -m experiments.why_elmo table runs/why_elmo

TEXT is a folder with text shards train-*.txt, heldout.txt and heldout_sample.txt, one tokenized sentence per line.
"""

import argparse
import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple, Optional

from experiments import grid
from experiments.run import CONFIGS, end_with_parent
from experiments.why_elmo.table import lines
from experiments.why_elmo.tasks import FINE_TUNED, FRACTIONS, SEEDS, TASKS, ToolRun, train_task
from experiments.why_elmo.training import HOUR, Training
from experiments.why_elmo.vectors import write_vectors

PACKAGES = "packages"
"""The folder of RUNS with packages that are not in the environment."""


class Tool(NamedTuple):
    """A tool: the module of this package, its functions, and the hours of processor time that its training gets.

    `file` is a pattern for the files that one needs to embed. `after` names the trainings of a tool with several.
    """

    module: str
    file: str
    train: Optional[str] = None
    embedder: Optional[str] = None
    hours: float = 2.0
    after: tuple[str, ...] = ()

    def call(self, function: str, run: Training) -> Any:
        """Call a function of the module. Only the process that works with a tool imports it."""
        return getattr(importlib.import_module(f"experiments.why_elmo.{self.module}"), function)(run)


TOOLS = {
    "ours": Tool("ours", "run/model.tar.gz", "train", "embedder"),
    "bert": Tool("transformer", "model/*", "train_bert", "embedder"),
    "flair_forward": Tool("flair_lm", "run/best-lm.pt", "train_forward", hours=1.0),
    "fasttext": Tool("gensim_vectors", "vectors*", "train_fasttext", "embedder"),
    "flair_backward": Tool("flair_lm", "run/best-lm.pt", "train_backward", hours=1.0),
    "flair": Tool("flair_lm", "", None, "embedder", after=("flair_forward", "flair_backward")),
    "gpt": Tool("transformer", "model/*", "train_gpt", "embedder"),
    "spacy": Tool("spacy_tok2vec", "run/model-last.bin", "train", "embedder"),
    "word2vec": Tool("gensim_vectors", "vectors*", "train_word2vec", "embedder"),
    "random": Tool("ours", "", None, "random_embedder"),
    "english_tiny": Tool("ours", "", None, "published_embedder"),
}
"""The tools, in the order in which they are trained."""

NAMES = [name for name, tool in TOOLS.items() if tool.embedder]
"""The tools that give vectors."""


def training(args: argparse.Namespace, name: str) -> Training:
    """Return the training of a tool."""
    return Training(args.runs / name, args.text, TOOLS[name].hours * HOUR)


def is_trained(args: argparse.Namespace, name: str) -> bool:
    """Return whether a tool has been trained, or needs no training."""
    tool = TOOLS[name]
    parts = tool.after or ([name] if tool.train else [])
    return all(training(args, part).read("result") for part in parts)


def start(args: argparse.Namespace, name: str) -> subprocess.Popen[bytes]:
    """Start or resume the training of a tool in its own process, on one thread and at the lowest priority."""
    folder = args.runs / name
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "experiments.why_elmo", "train", str(args.runs), "--text", str(args.text)]
    return subprocess.Popen(
        ["nice", "-n", "19", *command, "--tool", name],
        cwd=CONFIGS.parent,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,  # closes when this process ends, which ends the training
        stdout=(folder / "log").open("a"),
        stderr=subprocess.STDOUT,
    )


def train_all(args: argparse.Namespace) -> None:
    """Train the tools without a result, `jobs` at a time. While the file `pause` exists, the trainings stand still."""
    todo = [name for name, tool in TOOLS.items() if tool.train and not is_trained(args, name)]
    running: dict[str, subprocess.Popen[bytes]] = {}
    paused = False
    while todo or running:
        for name, process in list(running.items()):
            if process.poll() is not None:
                print(time.strftime("%F %T"), name, "ended with", process.returncode, flush=True)
                del running[name]
        while todo and len(running) < args.jobs and not paused:
            name = todo.pop(0)
            running[name] = start(args, name)
            print(time.strftime("%F %T"), name, "started as", running[name].pid, flush=True)
        if paused != args.pause.exists():
            paused = not paused
            for process in running.values():
                process.send_signal(signal.SIGSTOP if paused else signal.SIGCONT)
            print(time.strftime("%F %T"), "paused" if paused else "continued", flush=True)
        time.sleep(2)


def train(args: argparse.Namespace) -> None:
    """Train one tool in this process, and write `result.json` when the training is complete; or train all tools."""
    if args.tool is None:
        return train_all(args)
    end_with_parent()
    run = training(args, args.tool)
    tool = TOOLS[args.tool]
    result = tool.call(tool.train or "", run)
    size = sum(path.stat().st_size for path in run.folder.glob(tool.file))
    facts = {"cpu_seconds": run.cpu_seconds(), "megabytes": size / 1e6, "calibration": run.read("calibration")}
    run.write("result", {**facts, **result})


def vectors(args: argparse.Namespace) -> None:
    """Write the vectors of the tools that are trained."""
    for name in NAMES:
        folder = args.runs / "vectors" / name
        todo = [task for task in TASKS if not (folder / f"{task}.json").exists()]
        if todo and is_trained(args, name):
            run = training(args, name)
            run.folder.mkdir(exist_ok=True)
            embed = TOOLS[name].call(TOOLS[name].embedder or "", run)
            for task in todo:
                print(name, task, write_vectors(embed, task, folder), flush=True)


def tasks(args: argparse.Namespace) -> None:
    """Train the tasks on the vectors that exist, and fine-tune BERT on them."""
    if args.task:
        end_with_parent()
        tool, task, seed, fraction = args.task
        return train_task(ToolRun(args.runs / "tasks", task, tool, int(seed), float(fraction)))
    runs = [
        ToolRun(args.runs / "tasks", task, name, seed, fraction)
        for seed in SEEDS
        for fraction in FRACTIONS
        for name in [*NAMES, FINE_TUNED]
        for task in TASKS
    ]
    grid.train_all([run for run in runs if run.is_possible()], args.jobs)


def table(args: argparse.Namespace) -> None:
    """Print the results."""
    print(*lines(args.runs, NAMES), sep="\n")


def main() -> None:
    """Parse the command line and call its function."""
    parser = argparse.ArgumentParser(
        "python -m experiments.why_elmo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = {"train": train, "vectors": vectors, "tasks": tasks, "table": table}
    parser.add_argument("command", choices=commands)
    parser.add_argument("runs", metavar="RUNS", type=Path, help="the folder for everything that is written")
    parser.add_argument("--text", type=Path, default=Path(), help="for `train`: the folder of the text")
    parser.add_argument(
        "--jobs", type=int, default=2, help="the number of processes at a time, one core each; default: 2"
    )
    parser.add_argument(
        "--pause", type=Path, default=Path("PAUSE"), help="trainings stand still while this file exists"
    )
    parser.add_argument("--tool", choices=TOOLS, help="train this tool in this process, as `train` does for each")
    parser.add_argument("--task", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.runs, args.text = args.runs.resolve(), args.text.resolve()
    sys.path.append(str(args.runs / PACKAGES))
    commands[args.command](args)


if __name__ == "__main__":
    main()
