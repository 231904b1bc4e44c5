"""The paper's experiments as a grid: experiment × task × variant × data fraction × seed, resumable."""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple, Optional

from tqdm import tqdm

from benchmarks.table import Table
from experiments.run import CONFIGS, TASKS, Run

METRICS = {"accuracy": "accuracy", "f1-measure-overall": "span F1"}
FRACTIONS = (0.01, 0.03, 0.1, 0.3, 1.0)


class Column(NamedTuple):
    """What an experiment compares: a variant, on a part of the training data."""

    header: str
    variant: str
    fraction: float = 1.0


class Experiment(NamedTuple):
    """The columns of one table."""

    title: str
    columns: Sequence[Column]


BASELINE = Column("without ELMo", "without_elmo")
ELMO = Column("ELMo", "elmo")
EXPERIMENTS = {
    "layers": Experiment(
        "Table 2: how layers are weighted",
        [
            BASELINE,
            Column("last layer", "last_layer"),
            Column("all, λ = 1", "lambda_1"),
            Column("all, λ = 0.001", "lambda_0.001"),
            Column("all, λ = 0 (ELMo)", "elmo"),
        ],
    ),
    "rate": Experiment(
        "Table 2, with layer weights that learn 50 times as fast",
        [
            Column("last layer", "last_layer"),
            Column("all, λ = 1", "fast_lambda_1"),
            Column("all, λ = 0.001", "fast_lambda_0.001"),
            Column("all, λ = 0", "fast_layer_weights"),
        ],
    ),
    "token_layer": Experiment(
        "ELMo without its token layer",
        [ELMO, Column("layers 1 and 2", "contextual_layers"), Column("last layer", "last_layer")],
    ),
    "places": Experiment(
        "Table 3: where ELMo is",
        [Column("input", "input_only"), Column("both (ELMo)", "elmo"), Column("output", "output_only")],
    ),
    "layer_norm": Experiment("Layer norm", [Column("off (ELMo)", "elmo"), Column("on", "layer_norm")]),
    "dropout": Experiment("ELMo's dropout", [Column("0.5 (ELMo)", "elmo"), Column("0", "no_dropout")]),
    "data": Experiment(
        "Figure 1: parts of the training data",
        [
            Column(f"{100 * fraction:g} %, {column.header}", column.variant, fraction)
            for fraction in FRACTIONS
            for column in (BASELINE, ELMO)
        ],
    ),
    "pretraining": Experiment("What pretraining brings", [BASELINE, Column("random weights", "random_weights"), ELMO]),
}
"""In the order in which they are run."""

DESCRIPTION = f"""
Run the paper's experiments and print a table of each: the mean and the standard deviation, over the seeds, of the best
score on the development set, in percent.

{chr(10).join(f"  {name:12}{experiment.title}" for name, experiment in EXPERIMENTS.items())}

Each column is a config of training_configs/variants over the config of a task; `elmo` is what the others depart from.
The training data are the first sentences of the corpus, as many as the table of tasks says; a part of them is drawn by
the seed, the same for all variants, and trained on for as many steps. Layers come from a sentence cache. Runs that
experiments have in common are run once.

Environment variables say where the corpora lie: SST, WNUT17, UD_EWT, CONLL2000, AG_NEWS (training_configs/README.md).

All of it on two cores, later the tables alone:
  python -m experiments.grid runs/grid --jobs 2
  python -m experiments.grid runs/grid --table

One task with a biLM of your own, beside english-tiny:
  ELMO_BILM=my.safetensors ELMO_BILM_LAYERS=2 ELMO_BILM_PROJECTION=256 \\
    python -m experiments.grid runs/grid --tasks sst5 --variants elmo your_bilm

A run leaves in RUNS/task/ its config variant-seed.jsonnet, a log beside it and the folder variant-seed/, with the part
of the data before the seed if it is not the whole. What is done is not done again, and what was cut off begins anew.
Seed by seed, and of a seed experiment by experiment, so that what there is so far makes tables. RUNS/sentence_caches
can be deleted when all is done.
"""


def grid(args: argparse.Namespace) -> list[Run]:
    """The runs that the command line asks for, each once, in their order."""
    columns = [column for experiment in experiments(args) for column in experiment.columns]
    runs = [
        Run(args.runs, task, column.variant, seed, column.fraction)
        for seed in args.seeds
        for column in columns
        for task in args.tasks
    ]
    return list(dict.fromkeys(runs))


def experiments(args: argparse.Namespace) -> list[Experiment]:
    """Those that are named, or one of the variants that are named."""
    if args.variants:
        return [Experiment("Variants", [Column(variant, variant) for variant in args.variants])]
    return [EXPERIMENTS[name] for name in args.experiments]


def train(run: Run) -> tuple[Run, float]:
    """Train one run in a process of its own, which may fail; also say how many seconds of CPU it took."""
    run.path().parent.mkdir(parents=True, exist_ok=True)
    values = [str(value) for value in run]
    with run.path(".log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "experiments.run", *values],
            cwd=CONFIGS.parent,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # tensors this small gain nothing from threads
            stdin=subprocess.PIPE,  # never written to: it tells the process when this one has ended
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return run, usage.ru_utime + usage.ru_stime


def train_all(runs: Sequence[Run], jobs: int) -> int:
    """Train those that are not done, `jobs` at once, and say how each went; how many failed."""
    failed = 0
    todo = [run for run in runs if run.score() is None]
    pool = ThreadPoolExecutor(jobs)
    try:
        with tqdm(total=len(runs), initial=len(runs) - len(todo), unit="run", dynamic_ncols=True) as progress:
            for future in as_completed([pool.submit(train, run) for run in todo]):
                run, seconds = future.result()
                score = run.score()
                failed += score is None
                said = f"failed, see {run.path('.log')}" if score is None else f"{score:.2f}"
                progress.write(f"{run.task}, {run.path().name}: {said} ({seconds:.0f} s of CPU)")
                progress.update()
    finally:
        pool.shutdown(cancel_futures=True)  # an interrupt ends the grid, not just the runs under way
    return failed


def cell(runs: Sequence[Run]) -> str:
    """Mean ± standard deviation of the runs that are done, and how many if not all are."""
    scores = [score for run in runs if (score := run.score()) is not None]
    if not scores:
        return ""
    deviation = f" ± {stdev(scores):.2f}" if len(scores) > 1 else ""
    missing = f" ({len(scores)} of {len(runs)} seeds)" if len(scores) < len(runs) else ""
    return f"{mean(scores):.2f}{deviation}{missing}"


def tables(args: argparse.Namespace) -> Iterator[Table]:
    """What is trained on, then one for each experiment: a row for each task."""
    facts = [
        [f"`{name}`", METRICS[task.metric], f"{task.train:,}", f"{task.dev:,}", f"{task.epochs}, {task.patience}"]
        for name, task in ((name, TASKS[name]) for name in args.tasks)
    ]
    header = ["", "score", "train", "dev", "epochs at most, patience"]
    yield Table("Tasks", "Sentences or texts, the first of the corpus.", header, facts)
    seeds = f"Seeds {', '.join(map(str, args.seeds))}: mean ± standard deviation of the best score on dev, in percent."
    for experiment in experiments(args):
        rows = [
            [f"`{task}`"]
            + [
                cell([Run(args.runs, task, column.variant, seed, column.fraction) for seed in args.seeds])
                for column in experiment.columns
            ]
            for task in args.tasks
        ]
        yield Table(experiment.title, seeds, ["", *(column.header for column in experiment.columns)], rows)


def parse(arguments: Optional[list[str]]) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        "python -m experiments.grid", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    variants = sorted(path.stem for path in (CONFIGS / "variants").glob("*.jsonnet"))
    parser.add_argument("runs", metavar="RUNS", type=Path, help="the folder of all runs")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="default: all five")
    parser.add_argument("--experiments", nargs="+", choices=EXPERIMENTS, default=list(EXPERIMENTS), help="default: all")
    parser.add_argument(
        "--variants",
        nargs="+",
        choices=variants,
        metavar="VARIANT",
        help=f"in place of experiments: {', '.join(variants)}",
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="default: 1 2 3")
    parser.add_argument("--jobs", type=int, default=1, help="how many runs at once, a core each; default: 1")
    parser.add_argument("--table", action="store_true", help="train nothing, print the tables of what there is")
    args = parser.parse_args(arguments)
    args.runs = args.runs.resolve()
    return args


def main(arguments: Optional[list[str]] = None) -> int:
    """Train what is not done yet, print the tables; 1 if a run failed."""
    args = parse(arguments)
    failed = 0 if args.table else train_all(grid(args), args.jobs)
    for table in tables(args):
        print(*table.lines(), sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
