"""A fault at every operation that changes a file, and kills at random moments. Prints a Markdown table.

Linux and gcc only. Writes nothing but a temporary folder.
"""

import argparse
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.faults.processes import CONTROL, FAULTS, TEAR, run_preloaded


def main() -> int:
    """Run the jobs in a process with the preloaded library; return 1 if a trial failed."""
    if CONTROL not in os.environ:
        return run_preloaded(["-m", "tests.faults", *sys.argv[1:]])
    from tests.faults.jobs import JOBS
    from tests.faults.trials import Trials

    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("jobs", nargs="*", metavar="JOB", default=list(JOBS), help=f"of {', '.join(JOBS)}")
    parser.add_argument("--every", type=int, default=1, metavar="K", help="each K-th fault only; 0 for none")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="N kills at random moments of each job")
    args = parser.parse_args()
    if unknown := set(args.jobs) - JOBS.keys():
        parser.error(f"JOB: expected some of {', '.join(JOBS)}, got {', '.join(unknown)}")

    print("| job | operations | faults | equal | failed |\n|---|---|---|---|---|", flush=True)
    failures = 0
    for name in args.jobs:
        trials = Trials(JOBS[name], Path(os.environ["TMPDIR"], name))
        if args.every:
            chosen = list(numbered_faults(trials.operations))[:: args.every]
            failed = 0
            for fault, number in chosen:
                problems = trials.numbered(fault, number)
                failed += bool(problems)
                report(f"{name}: {fault} at {number}, {trials.operations[number - 1]}", problems)
            print_row(name, len(trials.operations), len(chosen), failed)
            failures += failed
        if args.random:
            draw, kills, failed = random.Random(0), 0, 0
            while kills < args.random:
                done, problems = trials.killed_at_random(draw)
                kills += done
                failed += done if problems else 0
                failures += bool(problems)
                report(f"{name}: killed at random", problems)
            print_row(f"{name}, random moments", "–", kills, failed)
    return int(failures > 0)


def numbered_faults(operations: list[str]) -> Iterator[tuple[str, int]]:
    """Yield each fault and the number of the operation that meets it; only a write can be done by half."""
    for number, operation in enumerate(operations, 1):
        for fault, mode in FAULTS.items():
            if mode != TEAR or operation.startswith("write "):
                yield fault, number


def report(trial: str, problems: list[str]) -> None:
    """Print what is wrong to standard error."""
    for problem in problems:
        print(f"{trial}: {problem}", file=sys.stderr, flush=True)


def print_row(name: str, operations: object, faults: int, failed: int) -> None:
    """Print a row of the table."""
    print(f"| {name} | {operations} | {faults} | {faults - failed} | {failed} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
