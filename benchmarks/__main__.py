"""`python -m benchmarks`: set up, measure, print."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Optional

import torch
from allennlp.common.checks import ConfigurationError

from benchmarks import embed, growth, layers, long, pretrain, tagger
from benchmarks.agreement import Disagreement
from benchmarks.settings import Settings
from benchmarks.sizes import SIZES, options_of
from benchmarks.table import Table, head
from benchmarks.text import read_text
from benchmarks.weights import write_random_weights

DESCRIPTION = """
Measure how fast biLMs of random weights embed and train, and how much memory they take: ours, AllenNLP's own
(allennlp.modules.elmo.Elmo, the same weights), and the limit, which is the matrix products alone.

  embed     text to vectors: one batch, a corpus, one sentence; peak memory
  layers    the character encoder, one LSTM, the whole stack, each against its bare products and torch.nn.LSTM
  tagger    a training step of a tagger on frozen ELMo
  pretrain  a training step of the biLM itself: tokens a second, and the share of the machine's peak
  long      memory for a line of 20,000 tokens, alone and among short sentences
  growth    slopes of time and memory as tokens, batches and words grow, and a plot of them

Answers are compared before anything is timed: in float32 within 1e-5 of AllenNLP's at every layer, in bfloat16 at a
cosine of 0.9999 or more. If they differ, it says so and ends with 1. The contestants then take turns, A B A B, and
what is printed is the median of the rounds; a ratio is the median of the rounds' own ratios.

A first look, minutes:
  python -m benchmarks embed layers --text heldout.txt

All of it, best on a machine that does nothing else; then on a GPU. What README.md in this folder shows was printed by
the commands in the heads of its tables:
  python -m benchmarks --size original --text heldout.txt --output results.md
  python -m benchmarks embed pretrain --size original --device cuda --text heldout.txt

Threads are torch's: OMP_NUM_THREADS=1 and taskset hold it to a core.
"""
SUBJECTS: dict[str, Callable[[Settings], Iterator[Table]]] = {
    "embed": embed.measure,
    "layers": layers.measure,
    "tagger": tagger.measure,
    "pretrain": pretrain.measure,
    "long": long.measure,
    "growth": growth.measure,
}


def main(arguments: Optional[list[str]] = None) -> int:
    """Measure what the command line asks for; 1 if answers differ, 2 if it asks for what there is not."""
    args = parse(arguments)
    try:
        with TemporaryDirectory() as folder:
            settings = settings_of(args, Path(folder))
            write_random_weights(settings.options, settings.files)
            report(head(settings), args.output)
            for subject in args.subjects or SUBJECTS:
                for table in SUBJECTS[subject](settings):
                    report(table.lines(), args.output)
    except Disagreement as error:
        print(f"The answers differ, so nothing more is timed. {error}", file=sys.stderr)
        return 1
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def parse(arguments: Optional[list[str]]) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = [size for size in SIZES if size != "toy"]  # that one is for tests
    add = parser.add_argument
    add("subjects", nargs="*", metavar="SUBJECT", help=f"some of {', '.join(SUBJECTS)}; default: all")
    add("--size", default="small", metavar="|".join(sizes), help="1024/128 or 4096/512, as published; default: small")
    add("--device", default="cpu", choices=["cpu", "cuda"], help="default: cpu")
    add(
        "--text",
        metavar="FILE",
        help="a path or pattern; a tokenised sentence a line; default: $LM_HELDOUT, or made up",
    )
    add("--tokens", type=positive, default=50_000, metavar="N", help="of the corpus; default: 50000")
    add(
        "--repeats", type=positive, default=9, metavar="N", help="rounds, 3 at most where one takes minutes; default: 9"
    )
    add("--output", type=Path, metavar="FILE", help="append the tables to this Markdown file; the plot lies beside it")
    args = parser.parse_args(arguments)
    for name, found, wanted in [("SUBJECT", each, list(SUBJECTS)) for each in args.subjects] + [
        ("--size", args.size, list(SIZES))
    ]:
        if found not in wanted:
            parser.error(f"{name} is {found!r}; wanted one of {', '.join(each for each in wanted if each != 'toy')}")
    return args


def positive(value: str) -> int:
    """A whole number above 0."""
    number = int(value)
    if number < 1:
        raise ValueError(value)
    return number


def settings_of(args: argparse.Namespace, folder: Path) -> Settings:
    """Read and checked. Raises `ConfigurationError` for a device or a text that is not there."""
    if args.device == "cuda" and not torch.cuda.is_available():
        raise ConfigurationError("--device is 'cuda', and torch finds no GPU; wanted 'cpu', or a machine with one")
    return Settings(
        size=args.size,
        options=options_of(args.size),
        files=folder,
        device=torch.device(args.device),
        text=read_text(args.text or os.environ.get("LM_HELDOUT"), args.tokens),
        tokens=args.tokens,
        repeats=args.repeats,
        plot=args.output.with_suffix(".svg") if args.output else Path("growth.svg"),
    )


def report(lines: Iterator[str], output: Optional[Path]) -> None:
    """Print, and append to the file."""
    text = "".join(f"{line}\n" for line in lines)
    print(text, end="", flush=True)
    if output is not None:
        with output.open("a", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    sys.exit(main())
