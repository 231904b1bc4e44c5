"""What a biLM is worth to tasks: taggers and classifiers without ELMo, with random weights and with english-tiny."""

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple, Optional

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = ROOT / "training_configs"

DESCRIPTION = """
Train five small tasks three times over, once for each contestant, and print a table: the mean and the standard
deviation, over the seeds, of the best score on the development set, in percent.

  none          without ELMo
  random        ELMo from a biLM of random weights, drawn anew for each seed: what the architecture alone brings
  english-tiny  ELMo from the biLM of the same sizes that comes with the package: what pretraining brings

All else is the same: the task's config in training_configs/, its task RNN, the subset of its corpus, the epochs.
Environment variables say where the corpora lie: SST, WNUT17, UD_EWT, CONLL2000, AG_NEWS (training_configs/README.md).

All of it, and later the table alone:
  python benchmarks/downstream.py runs/downstream
  python benchmarks/downstream.py runs/downstream --table

One task with a biLM that is not in the package yet:
  python benchmarks/downstream.py runs/downstream --tasks sst5 --contestants english-tiny --english-tiny my.safetensors

A run leaves in RUNS/task/ its config contestant-seed.jsonnet, a log beside it and the folder contestant-seed/.
What is done is not done again, and what was cut off begins anew. Contestant by contestant and seed by seed, so
that what there is so far makes a table.
"""


class Task(NamedTuple):
    """A config and how much of it is enough to tell the contestants apart in two minutes of one core."""

    config: str
    metric: str
    train: int
    dev: int
    epochs: int
    patience: int = 3


TASKS = {
    "sst5": Task("classify/sst5", "accuracy", train=3000, dev=1101, epochs=6),
    "wnut17_ner": Task("tag/wnut17_ner", "f1-measure-overall", train=3394, dev=1009, epochs=6),
    "ud_pos": Task("tag/ud_pos", "accuracy", train=2000, dev=1000, epochs=6),
    "conll2000_chunking": Task("tag/conll2000_chunking", "f1-measure-overall", train=1500, dev=894, epochs=6),
    "ag_news": Task("classify/ag_news", "accuracy", train=1000, dev=2000, epochs=15, patience=5),
}
METRICS = {"accuracy": "accuracy", "f1-measure-overall": "span F1"}
CONTESTANTS = {"none": "without ELMo", "random": "random weights", "english-tiny": "english-tiny"}


class Run(NamedTuple):
    """One training: a task, a contestant, a seed."""

    runs: Path
    task: str
    contestant: str
    seed: int

    def path(self, suffix: str = "") -> Path:
        """The run's folder, or with a suffix the file beside it."""
        return self.runs / self.task / f"{self.contestant}-{self.seed}{suffix}"

    def score(self) -> Optional[float]:
        """The best score on the development set in percent, or `None` if the run has not come to its end."""
        metrics = self.path() / "metrics.json"
        if not metrics.exists():
            return None
        return 100 * float(json.loads(metrics.read_text())[f"best_validation_{TASKS[self.task].metric}"])


def config(run: Run, english_tiny: Optional[Path]) -> str:
    """The task's config, in jsonnet, with what is particular to a run."""
    task = TASKS[run.task]
    trained = f" {{ keys: {{ pretrained: {json.dumps(str(english_tiny))} }} }}" if english_tiny else ""
    bilm = {
        "none": "null",
        "random": f"bilms.random {{ keys+: {{ seed: {run.seed} }} }}",
        "english-tiny": f"bilms.english_tiny{trained}",
    }[run.contestant]
    return f"""\
local bilms = import {json.dumps(str(CONFIGS / "lib/bilms.libsonnet"))};
(import {json.dumps(str(CONFIGS / task.config) + ".jsonnet")}) {{
  bilm:: {bilm},
  seed:: {run.seed},
  epochs:: {task.epochs},
  patience:: {task.patience},
  dataset_reader+: {{ max_instances: {task.train} }},
  validation_dataset_reader: $.dataset_reader {{ max_instances: {task.dev} }},
}}
"""


def train(run: Run, english_tiny: Optional[Path]) -> bool:
    """Train one run in a process of its own, and say how it went; False if it failed."""
    file, log = run.path(".jsonnet"), run.path(".log")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(config(run, english_tiny))
    command = [sys.executable, "-m", "allennlp", "train", str(file), "-s", str(run.path()), "--force"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with log.open("w") as output:
        subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    score = run.score()
    said = f"failed, see {log}" if score is None else f"{score:.2f}"
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{run.task}, {CONTESTANTS[run.contestant]}, seed {run.seed}: {said} ({seconds:.0f} s of CPU)", flush=True)
    if score is not None:  # the scores are what counts; the weights of all runs together are gigabytes
        for weights in [*run.path().glob("*.th"), run.path() / "model.tar.gz"]:
            weights.unlink()
    return score is not None


def cell(runs: Sequence[Run]) -> str:
    """Mean ± standard deviation of the runs that are done, and how many if not all are."""
    scores = [score for run in runs if (score := run.score()) is not None]
    if not scores:
        return ""
    deviation = f" ± {stdev(scores):.2f}" if len(scores) > 1 else ""
    missing = f" ({len(scores)} of {len(runs)} seeds)" if len(scores) < len(runs) else ""
    return f"{mean(scores):.2f}{deviation}{missing}"


def table(args: argparse.Namespace) -> Iterator[str]:
    """The lines of the Markdown table: a row for each task, a column for each contestant."""
    head = ["", "score", "sentences: train, dev", "epochs, at most", *map(CONTESTANTS.__getitem__, args.contestants)]
    yield "| " + " | ".join(head) + " |"
    yield "|---" * len(head) + "|"
    for name in args.tasks:
        task = TASKS[name]
        facts = [f"`{task.config}`", METRICS[task.metric], f"{task.train:,}, {task.dev:,}", str(task.epochs)]
        cells = [
            cell([Run(args.runs, name, contestant, seed) for seed in args.seeds]) for contestant in args.contestants
        ]
        yield "| " + " | ".join(facts + cells) + " |"


def parse() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUNS", type=Path, help="the folder of all runs")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="default: all five")
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS), help="default: all")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="default: 1 2 3")
    parser.add_argument("--table", action="store_true", help="train nothing, print the table of what there is")
    parser.add_argument(
        "--english-tiny", type=Path, metavar="PATH", help="a file in place of the package's english-tiny"
    )
    args = parser.parse_args()
    args.runs = args.runs.resolve()
    if args.english_tiny is not None:
        args.english_tiny = args.english_tiny.resolve(strict=True)
    return args


def main() -> int:
    """Train what is not done yet, print the table; 1 if a run failed."""
    args = parse()
    runs = [Run(args.runs, task, name, seed) for name in args.contestants for seed in args.seeds for task in args.tasks]
    failed = 0
    if not args.table:
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # tensors this small gain nothing from threads
        failed = sum(not train(run, args.english_tiny) for run in runs if run.score() is None)
    print(*table(args), sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
