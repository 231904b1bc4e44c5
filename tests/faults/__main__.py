"""A fault at every operation that changes a file. Prints a Markdown table.

Linux and gcc only. Writes nothing but a temporary folder.
"""

import argparse
import os
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
    parser.add_argument("--every", type=int, default=1, metavar="K", help="each K-th fault only")
    args = parser.parse_args()
    if unknown := set(args.jobs) - JOBS.keys():
        parser.error(f"JOB: expected some of {', '.join(JOBS)}, got {', '.join(unknown)}")

    print("| job | operations | faults | equal | failed |\n|---|---|---|---|---|", flush=True)
    failures = 0
    for name in args.jobs:
        trials = Trials(JOBS[name], Path(os.environ["TMPDIR"], name))
        chosen = list(numbered_faults(trials.operations))[:: args.every]
        failed = 0
        for fault, number in chosen:
            problems = trials.numbered(fault, number)
            failed += bool(problems)
            for problem in problems:
                place = f"{name}: {fault} at {number}, {trials.operations[number - 1]}"
                print(f"{place}: {problem}", file=sys.stderr, flush=True)
        equal = len(chosen) - failed
        print(f"| {name} | {len(trials.operations)} | {len(chosen)} | {equal} | {failed} |", flush=True)
        failures += failed
    return int(failures > 0)


def numbered_faults(operations: list[str]) -> Iterator[tuple[str, int]]:
    """Yield each fault and the number of the operation that meets it; only a write can be done by half."""
    for number, operation in enumerate(operations, 1):
        for fault, mode in FAULTS.items():
            if mode != TEAR or operation.startswith("write "):
                yield fault, number


if __name__ == "__main__":
    sys.exit(main())
