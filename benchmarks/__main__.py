"""`python -m benchmarks`: run benchmarks and print their tables."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Optional

import torch
from allennlp.common.checks import ConfigurationError

from benchmarks import embed, growth, layers, long, precision, pretrain, same, tagger
from benchmarks.agreement import Disagreement
from benchmarks.bilms import SIZES, TOY, options_of, write_random_weights
from benchmarks.settings import Settings
from benchmarks.table import Table, head
from benchmarks.text import read_text
from elmo_plugin.commands.arguments import count

DESCRIPTION = """
Measure how fast biLMs embed and train, and how much memory they use. The biLMs have random weights. Three systems are
compared: ours, AllenNLP's (allennlp.modules.elmo.Elmo, on the same weights), and the limit: the matrix products alone.

  embed     embed one batch, a corpus and one sentence; peak memory
  layers    the character encoder, one LSTM and the whole stack for 1 to 128 sentences, compared with bare products
            and torch.nn.LSTM
  tagger    a training step of a tagger on frozen ELMo
  pretrain  a training step of the biLM: tokens per second, and the share of the machine's peak rate
  precision one, few and many sentences and a corpus in float32, bfloat16 and int8
  long      memory for a line of 20,000 tokens, alone and among short sentences
  growth    how time and memory grow with tokens, batch size and word types, with a plot
  same      how equal a sentence's vectors are: alone and in a batch, in another order, with one thread and two

Vectors are compared before anything is timed. At every layer they must be within 1e-5 of AllenNLP's in float32, with a
cosine of at least 0.9999 in bfloat16 and 0.999 in int8. If not, the exit code is 1. The systems take turns, A B A B.
Each time is the median of the rounds; each ratio is the median of the ratios within the rounds.

A first look takes minutes:
  python -m benchmarks embed layers --text heldout.txt

All benchmarks, best on an idle machine, then on a GPU:
  python -m benchmarks --size original --text heldout.txt --output results.md
  python -m benchmarks embed pretrain --size original --device cuda --text heldout.txt

docs/benchmarks.md has results, each with its command. PyTorch sets the number of threads: use
OMP_NUM_THREADS=1 and taskset for one core.
"""
BENCHMARKS: dict[str, Callable[[Settings], Iterator[Table]]] = {
    "embed": embed.measure,
    "layers": layers.measure,
    "tagger": tagger.measure,
    "pretrain": pretrain.measure,
    "long": long.measure,
    "precision": precision.measure,
    "growth": growth.measure,
    "same": same.measure,
}


def main(arguments: Optional[list[str]] = None) -> int:
    """Run the benchmarks. Return 1 if systems disagree, and 2 if the device or the text does not exist."""
    args = parse(arguments)
    try:
        with TemporaryDirectory() as folder:
            settings = settings_of(args, Path(folder))
            write_random_weights(settings.options, settings.files)
            report(head(settings.size, settings.options.lstm, settings.device, settings.text.origin), args.output)
            for name in args.benchmarks or BENCHMARKS:
                for table in BENCHMARKS[name](settings):
                    report(table.lines(), args.output)
    except Disagreement as error:
        print(f"The vectors differ, so nothing more is timed. {error}", file=sys.stderr)
        return 1
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def parse(arguments: Optional[list[str]]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("benchmarks", nargs="*", metavar="BENCHMARK", help=f"any of {', '.join(BENCHMARKS)}; default: all")
    add(
        "--size",
        default="small",
        metavar="|".join(SIZES),
        help="512/256, or 1024/128 and 4096/512, as published; default: small",
    )
    add("--device", default="cpu", choices=["cpu", "cuda"], help="default: cpu")
    add(
        "--text",
        metavar="FILE",
        help="a path or pattern; one tokenized sentence per line; default: $LM_HELDOUT, else made-up text",
    )
    add("--tokens", type=count, default=50_000, metavar="N", help="the size of the corpus; default: 50000")
    add("--repeats", type=count, default=9, metavar="N", help="rounds, at most 3 if a round takes minutes; default: 9")
    add(
        "--output",
        type=Path,
        metavar="FILE",
        help="append the tables to this Markdown file, and write the plot beside it",
    )
    args = parser.parse_args(arguments)
    # `choices` would list the toy size, and argparse does not accept an empty list of benchmarks with it.
    for name in args.benchmarks:
        if name not in BENCHMARKS:
            parser.error(f"BENCHMARK: expected any of {', '.join(BENCHMARKS)}, got {name!r}")
    if args.size not in (*SIZES, TOY):
        parser.error(f"--size: expected one of {', '.join(SIZES)}, got {args.size!r}")
    return args


def settings_of(args: argparse.Namespace, folder: Path) -> Settings:
    """Read the text and check the device. Raises `ConfigurationError` if either does not exist."""
    if args.device == "cuda" and not torch.cuda.is_available():
        raise ConfigurationError("--device: expected 'cpu', since PyTorch finds no GPU, got 'cuda'")
    torch.backends.cudnn.allow_tf32 = False  # AllenNLP's convolutions would be less precise than float32
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


def report(lines: Iterable[str], output: Optional[Path]) -> None:
    """Print the lines, and append them to the file."""
    text = "".join(f"{line}\n" for line in lines)
    print(text, end="", flush=True)
    if output is not None:
        with output.open("a", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    sys.exit(main())
