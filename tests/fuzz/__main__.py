"""Feed damaged input to everything that reads files of others: `python -m tests.fuzz [TARGET …] --inputs N --seed S`.

A table tells, for each target, the inputs, how many were answered and rejected, the findings, and the most time and
memory of one input. A finding is anything but an answer or one of our errors: another exception, a crash, more than
10 s or 256 MB, a write outside the folder, a program that is started, a connection. `--only N` repeats one input.
"""

import argparse
import logging
import sys
import time
import warnings

import torch._dynamo  # makes a cache folder at import, which is no attack's

from tests.fuzz.engine import fuzz
from tests.fuzz.targets import TARGETS


def main() -> int:
    """Run the targets; return 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", metavar="TARGET", nargs="*", default=list(TARGETS), help=", ".join(TARGETS))
    parser.add_argument("--inputs", type=int, default=10_000, help="for each target (default: 10,000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of one input")
    args = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    print("| target | inputs | answers | errors | findings | most time | most memory | minutes |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    found = 0
    for name in args.targets:
        inputs = 1 if args.only is not None else args.inputs
        begin = time.monotonic()
        result = fuzz(TARGETS[name], inputs, args.seed, args.only or 0)
        minutes = (time.monotonic() - begin) / 60
        found += len(result.findings)
        print(
            f"| {name} | {inputs:,} | {result.answers:,} | {result.errors:,} | {len(result.findings)} | "
            f"{result.slowest:.1f} s | {result.memory / 2**20:.0f} MB | {minutes:.1f} |",
            flush=True,
        )
        for finding in result.findings:
            print(f"\n{name} --seed {args.seed} --only {finding.number}:\n{finding.what}", file=sys.stderr, flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
