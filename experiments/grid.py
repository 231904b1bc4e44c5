"""Run the paper's experiments as a resumable grid: task × variant × data fraction × seed."""

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
from experiments.run import CONFIGS, KEEP, TASKS, Run, read_task, read_tasks

METRICS = {
    "accuracy": "accuracy",
    "f1-measure-overall": "span F1",
    "f1-measure-EVENT": "F1 of tokens",
}
"""What tables call a metric whose name says too little."""
PAPER = ["sst5", "wnut17_ner", "ud_pos", "conll2000_chunking", "ag_news"]
"""The tasks for which all experiments of the paper are run by default."""
FRACTIONS = (0.01, 0.03, 0.1, 0.3, 1.0)


class Condition(NamedTuple):
    """A column in the table of an experiment: a variant of the config, trained on a fraction of the data."""

    header: str
    variant: str
    fraction: float = 1.0


class Experiment(NamedTuple):
    """A comparison of conditions, printed as one table."""

    title: str
    conditions: Sequence[Condition]


BASELINE = Condition("without ELMo", "without_elmo")
ELMO = Condition("ELMo", "elmo")
EXPERIMENTS = {
    "layers": Experiment(
        "Table 2: how layers are weighted",
        [
            BASELINE,
            Condition("last layer", "last_layer"),
            Condition("all, λ = 1", "lambda_1"),
            Condition("all, λ = 0.001", "lambda_0.001"),
            Condition("all, λ = 0 (ELMo)", "elmo"),
        ],
    ),
    "places": Experiment(
        "Table 3: where ELMo is added",
        [Condition("input", "input_only"), Condition("both (ELMo)", "elmo"), Condition("output", "output_only")],
    ),
    "int8": Experiment("Weights of 8 bits", [Condition("float32 (ELMo)", "elmo"), Condition("int8", "int8")]),
    "dropout": Experiment("ELMo's dropout", [Condition("0.5 (ELMo)", "elmo"), Condition("0", "no_dropout")]),
    "data": Experiment(
        "Figure 1: fractions of the training data",
        [
            Condition(f"{100 * fraction:g} %, {condition.header}", condition.variant, fraction)
            for fraction in FRACTIONS
            for condition in (BASELINE, ELMO)
        ],
    ),
    "pretraining": Experiment(
        "The effect of pretraining", [BASELINE, Condition("random weights", "random_weights"), ELMO]
    ),
}
"""Experiments, in the order in which they run."""

DESCRIPTION = f"""
Run the paper's experiments and print a table for each. It shows the mean and the standard deviation over the seeds of
the best score on the development set, in percent.

{chr(10).join(f"  {name:12}{experiment.title}" for name, experiment in EXPERIMENTS.items())}

Each config of training_configs/tag, classify and parse is a task, except the demos. The tasks and their data are:

{{tasks}}

An environment variable names the folder of a corpus (training_configs/README.md). The training data are the first
sentences of the corpus, as many as `grid` in the config of the task says, or all. A fraction of them is drawn by the
seed, is the same for all variants, and is trained on for the same number of steps.

Each condition is a config of training_configs/variants that extends the config of a task and changes one thing in
`elmo`. Layers come from a sentence cache. A run that several experiments share is trained once.

A score is that of the best epoch on the development set, so it is a little too high. If a file RUNS/TASK.dev2 exists
when a run begins, its best epoch is also scored on this whole file, which had no part in choosing it.

Run everything on two cores; later, print only the tables:
  python -m experiments.grid runs/grid --jobs 2
  python -m experiments.grid runs/grid --table

Run one task with english-tiny and with a biLM of your own:
  ELMO_BILM=my.safetensors ELMO_BILM_LAYERS=2 ELMO_BILM_PROJECTION=256 \\
    python -m experiments.grid runs/grid --tasks sst5 --variants elmo your_bilm

A run writes its config VARIANT-SEED.jsonnet, a log and the folder VARIANT-SEED/ to RUNS/TASK/. If it trains on a
fraction of the data, the fraction is in these names before the seed. The weights of a finished run are deleted, and so
is its archive unless --keep-archives is given. A finished run is not trained again; an unfinished run starts from the
beginning. Runs are ordered by seed, then by experiment, so that the tables can be printed at any time.
RUNS/sentence_caches can be deleted at the end.
"""


def grid(args: argparse.Namespace) -> list[Run]:
    """Return the runs that the command line asks for, each once, in the order in which they are trained."""
    runs = [
        Run(args.runs, task, condition.variant, seed, condition.fraction)
        for seed in args.seeds
        for experiment in experiments(args)
        for condition in experiment.conditions
        for task in args.tasks
    ]
    return list(dict.fromkeys(runs))


def experiments(args: argparse.Namespace) -> list[Experiment]:
    """Return the chosen experiments, or one for each chosen fraction of the data that compares the chosen variants."""
    if args.variants:
        return [
            Experiment(
                f"Variants, {100 * fraction:g} % of the data",
                [Condition(variant, variant, fraction) for variant in args.variants],
            )
            for fraction in args.fractions
        ]
    return [EXPERIMENTS[name] for name in args.experiments]


def train(run: Run, *options: str) -> tuple[Run, float]:
    """Train one run in its own process, which may fail. Return the run and its seconds of CPU time."""
    run.path().parent.mkdir(parents=True, exist_ok=True)
    with run.path(".log").open("w") as log:
        process = subprocess.Popen(
            [*run.command(), *options],
            cwd=CONFIGS.parent,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # the tensors are too small for threads
            stdin=subprocess.PIPE,  # closes when this process ends, which ends the run
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return run, usage.ru_utime + usage.ru_stime


def train_all(runs: Sequence[Run], jobs: int, *options: str) -> int:
    """Train the unfinished runs, `jobs` at a time, and print the result of each. Return the number of failed runs."""
    failed = 0
    todo = [run for run in runs if run.score() is None]
    pool = ThreadPoolExecutor(jobs)
    try:
        with tqdm(total=len(runs), initial=len(runs) - len(todo), unit="run", dynamic_ncols=True) as progress:
            for future in as_completed([pool.submit(train, run, *options) for run in todo]):
                run, seconds = future.result()
                score = run.score()
                failed += score is None
                result = f"failed, see {run.path('.log')}" if score is None else f"{score:.2f}"
                progress.write(f"{run.task}, {run.path().name}: {result} ({seconds:.0f} s of CPU time)")
                progress.update()
    finally:
        pool.shutdown(cancel_futures=True)  # an interrupt also cancels the runs that have not started
    return failed


def cell(runs: Sequence[Run], part: str) -> str:
    """Return the mean ± the standard deviation of the finished runs, with their number if some are missing."""
    scores = [score for run in runs if (score := run.score(part)) is not None]
    if not scores:
        return ""
    deviation = f" ± {stdev(scores):.2f}" if len(scores) > 1 else ""
    missing = f" ({len(scores)} of {len(runs)} seeds)" if len(scores) < len(runs) else ""
    return f"{mean(scores):.2f}{deviation}{missing}"


def tables(args: argparse.Namespace) -> Iterator[Table]:
    """Yield the table of tasks, then a table for each experiment with one row per task."""
    tasks = []
    for name in args.tasks:
        task = read_task(TASKS[name])
        sizes = [f"{size:,}" if size else "all" for size in (task.train, task.dev)]
        tasks.append([f"`{name}`", METRICS.get(task.metric, task.metric), *sizes, f"{task.epochs}, {task.patience}"])
    header = ["", "score", "train", "dev", "max. epochs, patience"]
    yield Table("Tasks", "The number of sentences or texts, taken from the start of the corpus.", header, tasks)
    seeds = f"Seeds {', '.join(map(str, args.seeds))}: mean ± standard deviation of the best score on dev, in percent."
    parts = {name: ["best_validation"] for name in args.tasks}
    for name in args.tasks:
        if Run(args.runs, name, "elmo", 1).second_dev().exists():
            parts[name].append("test")
    for experiment in experiments(args):
        rows = [
            [f"`{name}`" + (", second dev" if part == "test" else "")]
            + [
                cell([Run(args.runs, name, condition.variant, seed, condition.fraction) for seed in args.seeds], part)
                for condition in experiment.conditions
            ]
            for name in args.tasks
            for part in parts[name]
        ]
        yield Table(experiment.title, seeds, ["", *(condition.header for condition in experiment.conditions)], rows)


def parse(arguments: Optional[list[str]]) -> argparse.Namespace:
    """Parse the command line."""
    tasks = "\n".join(f"  {name:20}{task.data}" for name, task in zip(TASKS, read_tasks(*TASKS.values()), strict=True))
    parser = argparse.ArgumentParser(
        "python -m experiments.grid",
        description=DESCRIPTION.format(tasks=tasks),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    variants = sorted(path.stem for path in (CONFIGS / "variants").glob("*.jsonnet"))
    parser.add_argument("runs", metavar="RUNS", type=Path, help="the folder for the runs")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=PAPER, help=f"default: {' '.join(PAPER)}")
    parser.add_argument("--experiments", nargs="+", choices=EXPERIMENTS, default=list(EXPERIMENTS), help="default: all")
    parser.add_argument(
        "--variants",
        nargs="+",
        choices=variants,
        metavar="VARIANT",
        help=f"compare variants instead: {', '.join(variants)}",
    )
    parser.add_argument(
        "--fractions", nargs="+", type=float, default=[1.0], help="fractions of the data for --variants; default: 1"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="default: 1 2 3")
    parser.add_argument("--jobs", type=int, default=1, help="the number of runs at a time, one core each; default: 1")
    parser.add_argument(KEEP, action="store_true", help="keep the archive of each run, model.tar.gz, with its weights")
    parser.add_argument("--table", action="store_true", help="train nothing; print the tables of the finished runs")
    args = parser.parse_args(arguments)
    args.runs = args.runs.resolve()
    return args


def main(arguments: Optional[list[str]] = None) -> int:
    """Train the unfinished runs and print the tables. Return 1 if a run failed."""
    args = parse(arguments)
    options = [KEEP] if args.keep_archives else []
    failed = 0 if args.table else train_all(grid(args), args.jobs, *options)
    for table in tables(args):
        print(*table.lines(), sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
