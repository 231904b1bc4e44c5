"""The command `elmo-plugin prepare-text`: raw text → one tokenized sentence per line."""

import argparse
import gzip
import lzma
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path
from typing import Any, TextIO

from elmo_plugin.commands.arguments import Parsers, add_command, count, whole_number

NAME = "prepare-text"
ABOUT = "Write raw text as tokenized sentences, one per line, as training and embedding read them."
EXAMPLE = "elmo-plugin prepare-text 'novels/*.txt' text.txt.gz"
MORE = """
Hard-wrapped lines are joined, and blank lines end a paragraph; a text without
short lines has one paragraph per line. spaCy's rules for the language split
sentences and tokens; nothing is downloaded. Headers and licences inside a file
are text like any other: remove them first.

Shards to pretrain on, and a held-out part to measure perplexity on:
  elmo-plugin prepare-text 'novels/*.txt' corpus --shards 10 --heldout 2
  export LM_TRAIN='corpus/train-*' LM_HELDOUT=corpus/heldout.txt.gz

Another language, by spaCy's code (xx for one that spaCy does not know):
  elmo-plugin prepare-text wiki.txt text.txt --language de
"""
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
HELDOUT = "heldout.txt.gz"
percent = whole_number("a percentage from 1 to 99", least=1, most=99)
BLOCK = 20
"""Sentences that stay together: each block goes to one shard, or to the held-out text, whole."""


def add_parser(parsers: Parsers) -> argparse.ArgumentParser:
    """Add the command and its arguments."""
    subparser = add_command(parsers, NAME, ABOUT, "INPUT… OUTPUT", EXAMPLE, MORE, run)
    add = subparser.add_argument
    add("inputs", metavar="INPUT", nargs="+", help="raw text, plain, .gz or .xz: a path or a pattern; - is stdin")
    add("output", metavar="OUTPUT", type=Path, help="a file, compressed by its suffix; or a folder of shards")
    add("--language", metavar="CODE", default="en", help="spaCy's code of the language")
    add("--shards", metavar="N", type=count, help="write N files of training text to a folder")
    add("--heldout", metavar="PERCENT", type=percent, help="set this part of the sentences aside, in blocks of 20")
    add("--drop-duplicates", action="store_true", help="keep only the first of equal sentences")
    return subparser


def run(args: argparse.Namespace) -> None:
    """Read, split and write the text."""
    from allennlp.common.checks import ConfigurationError
    from allennlp.common.tqdm import Tqdm
    from more_itertools import unique_everseen

    from elmo_plugin.commands.console import say_written
    from elmo_plugin.common import atomic_file
    from elmo_plugin.pretraining import find_shards
    from elmo_plugin.text import SentenceSplitter, TextFile, paragraphs

    if args.output.exists():
        raise ConfigurationError(f"{args.output} exists already: expected the name of a new file or folder")
    files = [Path("-")] if args.inputs == ["-"] else [path for pattern in args.inputs for path in find_shards(pattern)]
    splitter = SentenceSplitter(args.language)
    blocks = (block for file in Tqdm.tqdm(files, desc="files") for block in paragraphs(TextFile(file).lines()))
    sentences = splitter.sentences(blocks)
    lines: Iterator[str] = (f"{' '.join(tokens)}\n" for tokens in sentences)
    if args.drop_duplicates:
        lines = unique_everseen(lines, key=lambda line: blake2b(line.encode(), digest_size=16).digest())
    if args.shards is None and args.heldout is None:
        with atomic_file(args.output) as path, open_text(path, args.output.suffix) as file:
            n_sentences = sum(file.write(line) > 0 for line in lines)
            if not n_sentences:
                raise ConfigurationError(f"{' '.join(args.inputs)}: expected text, got no sentences")
        written = f"{n_sentences:,} sentences"
        then = f"elmo-plugin embed-corpus {args.output} vectors.hdf5 --bilm english-tiny"
    else:
        n_training, n_heldout = write_shards(lines, args.output, args.shards or 1, args.heldout or 0)
        written = f"{n_training:,} sentences to train on, {n_heldout:,} held out"
        then = f"export LM_TRAIN='{args.output}/train-*'" + f" LM_HELDOUT={args.output / HELDOUT}" * bool(args.heldout)
    say_written(args.output, written, then)


def write_shards(lines: Iterable[str], folder: Path, shards: int, heldout: int) -> tuple[int, int]:
    """Write `heldout` percent of the blocks to one file and the others in turn to `shards` files.

    Return the number of sentences to train on, and of those held out.
    """
    from allennlp.common.checks import ConfigurationError

    from elmo_plugin.common import atomic_file

    names = [f"train-{shard:05}-of-{shards:05}.txt.gz" for shard in range(shards)] + [HELDOUT] * bool(heldout)
    n_training = n_heldout = 0
    with ExitStack() as stack:
        files = [
            stack.enter_context(open_text(stack.enter_context(atomic_file(folder / name)), ".gz")) for name in names
        ]
        for number, line in enumerate(lines):
            block = number // BLOCK
            if (block + 1) * heldout // 100 > block * heldout // 100:
                files[-1].write(line)
                n_heldout += 1
            else:
                files[n_training // BLOCK % shards].write(line)
                n_training += 1
        if not n_training or (heldout and not n_heldout):
            raise ConfigurationError(f"expected text for every part, got {n_training + n_heldout:,} sentences")
    return n_training, n_heldout


def open_text(path: Path, suffix: str) -> TextIO:
    """Open a file to write UTF-8 text, compressed if `suffix` is .gz or .xz."""
    opened: TextIO = OPENERS.get(suffix, open)(path, "wt", encoding="utf-8", newline="\n")
    return opened
