"""The command `elmo-plugin prepare-text`: raw text → one tokenized sentence per line."""

import argparse
import gzip
import lzma
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TextIO

from allennlp.commands.subcommand import Subcommand
from allennlp.common.checks import ConfigurationError
from allennlp.common.tqdm import Tqdm
from more_itertools import unique_everseen

from elmo_plugin.commands.arguments import add_command, count, whole_number
from elmo_plugin.commands.console import say_written
from elmo_plugin.common import atomic_file
from elmo_plugin.pretraining import find_shards
from elmo_plugin.text import FORMS, MEANINGS, RawText, SentenceSplitter, TextFile

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


@Subcommand.register("prepare-text")
class PrepareText(Subcommand):
    """Registered as a `Subcommand` with name `prepare-text`."""

    def add_subparser(self, parser: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
        """Add the command's arguments to the parser."""
        subparser = add_command(parser, self.name, ABOUT, "INPUT… OUTPUT", EXAMPLE, MORE, run)
        add = subparser.add_argument
        add("inputs", metavar="INPUT", nargs="+", help="raw text, plain, .gz or .xz: a path or a pattern; - is stdin")
        add("output", metavar="OUTPUT", type=Path, help="a file, compressed by its suffix; or a folder of shards")
        add("--language", metavar="CODE", help="the code of the language, such as de (default: guessed)")
        add("--lines", choices=FORMS, help="what the lines are (default: guessed for each file)")
        add("--shards", metavar="N", type=count, help="write N files of training text to a folder")
        add("--heldout", metavar="PERCENT", type=percent, help="set this part of the sentences aside, in blocks of 20")
        add("--drop-duplicates", action="store_true", help="keep only the first of equal sentences")
        return subparser


def run(args: argparse.Namespace) -> None:
    """Read, split and write the text."""
    if args.output.exists():
        raise ConfigurationError(f"{args.output} exists already: expected the name of a new file or folder")
    with ExitStack() as stack:
        if args.inputs == ["-"]:
            files = [stack.enter_context(standard_input())]
        else:
            files = [TextFile(path) for pattern in args.inputs for path in find_shards(pattern)]
        text = RawText(Tqdm.tqdm(files, desc="looking at files"), args.lines)
        print(f"lines: {forms(text)}", file=sys.stderr)
        splitter = SentenceSplitter(args.language or text.language()[0])
        sentences = (
            tokens for file in Tqdm.tqdm(text.files, desc="writing") for tokens in splitter.sentences(text.parts(file))
        )
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
            then = f"export LM_TRAIN='{args.output}/train-*'" + f" LM_HELDOUT={args.output / HELDOUT}" * bool(
                args.heldout
            )
    say_written(args.output, written, then)


@contextmanager
def standard_input() -> Iterator[TextFile]:
    """Yield the standard input as a file that can be read twice."""
    with TemporaryFile() as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield TextFile(Path(f"/dev/fd/{copy.fileno()}"), "standard input")


def forms(text: RawText) -> str:
    """Return how many files have which form of lines, with the names of a few files of the less frequent forms."""
    parts = []
    for form, files in text.forms().items():
        names = ", ".join(file.file.name for file in files[:3]) + (", …" if len(files) > 3 else "")
        parts.append(f"{len(files):,} {MEANINGS[form]}" + f" ({names})" * (len(parts) > 0))
    return ", ".join(parts)


def write_shards(lines: Iterable[str], folder: Path, shards: int, heldout: int) -> tuple[int, int]:
    """Write `heldout` percent of the blocks to one file and the others in turn to `shards` files.

    Return the number of sentences to train on, and of those held out.
    """
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
