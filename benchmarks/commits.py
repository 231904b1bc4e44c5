"""`python -m benchmarks.commits BEFORE [AFTER]`: time two commits of this project in turn on one machine."""

import argparse
import json
import os
import subprocess
import sys
import tarfile
from contextlib import ExitStack
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Optional

import torch

from benchmarks.bilms import SIZES, options_of
from benchmarks.table import ROOT, Table, duration, machine
from benchmarks.text import first_tokens, made_up, one_of_length, spread
from benchmarks.timing import Call, interleave
from elmo_plugin.commands.arguments import count

DESCRIPTION = """
Compare the speed of two commits: a process of each embeds the same batches with the same random weights, A B A B. Each
time is the median of the rounds, and the ratio is the median of the ratios within the rounds.

  python -m benchmarks.commits HEAD~5                   # the state of this checkout, compared with five commits ago
  python -m benchmarks.commits v1.0 main --size small
"""
SENTENCES = (1, 8, 32, 128)
PROGRAM = """
import json, sys, time
from elmo_plugin import Elmo, batch_to_ids
import torch
work = json.load(open(sys.argv[1]))
elmo = Elmo(bilm={"options": work["options"], "seed": 1}, dropout=0.0, precision=work["precision"]).eval()
texts = {name: [batch_to_ids(batch) for batch in batches] for name, batches in work["texts"].items()}
for line in sys.stdin:
    elmo.bilm.word_cache.clear()
    start = time.perf_counter()
    with torch.no_grad():
        for ids in texts[line.strip()]:
            elmo(ids)
    print(time.perf_counter() - start, flush=True)
"""
"""What each process runs. It uses public names alone, which all commits have."""


def parse(arguments: Optional[list[str]]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.commits",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("before", metavar="BEFORE", help="a commit")
    parser.add_argument("after", metavar="AFTER", nargs="?", help="another one; default: the files of this checkout")
    parser.add_argument("--size", default="tiny", metavar="|".join(SIZES), help="default: tiny")
    parser.add_argument("--precision", default="float32", help="default: float32")
    parser.add_argument("--tokens", type=count, default=5_000, metavar="N", help="of the corpus; default: 5000")
    parser.add_argument("--rounds", type=count, default=9, metavar="N", help="default: 9")
    return parser.parse_args(arguments)


def main(arguments: Optional[list[str]] = None) -> int:
    """Measure and print the table."""
    args = parse(arguments)
    sentences = made_up(20_000)
    texts = {f"{size} sentences": [spread(sentences, size)] for size in SENTENCES[1:]}
    texts = {"1 sentence": [[one_of_length(sentences, 20)]], **texts}
    corpus = sorted(first_tokens(sentences, args.tokens), key=len)
    texts["a corpus"] = [corpus[start : start + 64] for start in range(0, len(corpus), 64)]
    work = {"options": options_of(args.size).to_dict(), "precision": args.precision, "texts": texts}
    with TemporaryDirectory() as folder, ExitStack() as processes:
        Path(folder, "work.json").write_text(json.dumps(work), encoding="utf-8")
        checkouts = {"before": unpack(args.before, Path(folder)), "after": ROOT}
        if args.after is not None:
            checkouts["after"] = unpack(args.after, Path(folder))
        running = {name: processes.enter_context(start(checkout, folder)) for name, checkout in checkouts.items()}
        rows = []
        for text, batches in texts.items():
            calls = [Call(name, partial(embed, process, text)) for name, process in running.items()]
            times = interleave(calls, args.rounds, torch.device("cpu"))
            ratio = times["after"].times_faster_than(times["before"])
            n_tokens = sum(len(sentence) for batch in batches for sentence in batch)
            medians = [duration(times[name].median) for name in checkouts]
            rows.append([f"{text}, {n_tokens:,} tokens", *medians, f"{ratio:.2f} ×"])
    names = [f"`{args.before}`", f"`{args.after}`" if args.after else "this checkout"]
    remark = f"{args.size}, {args.precision}; the word cache is empty. Medians of {args.rounds} rounds."
    print(
        "\n".join([*machine("benchmarks.commits"), *Table("Two commits", remark, ["", *names, "ratio"], rows).lines()])
    )
    return 0


def unpack(commit: str, folder: Path) -> Path:
    """Write the files of a commit to a folder of their own."""
    packed = subprocess.run(["git", "archive", commit, "elmo_plugin"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    to = folder / commit.replace("/", "-")
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as files:
        files.extractall(to, filter="data")
    return to


def start(checkout: Path, folder: str) -> "subprocess.Popen[str]":
    """Start a process that embeds with the package of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "ELMO_PLUGIN_STARTUP": "off"}
    command = [sys.executable, "-c", PROGRAM, "work.json"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(command, cwd=folder, env=environment, text=True, bufsize=1, **pipes)  # type: ignore[call-overload,no-any-return]


def embed(process: "subprocess.Popen[str]", text: str) -> float:
    """Let a process embed one of the texts, and return the seconds that this took."""
    assert process.stdin is not None and process.stdout is not None
    print(text, file=process.stdin, flush=True)
    return float(process.stdout.readline())


if __name__ == "__main__":
    sys.exit(main())
