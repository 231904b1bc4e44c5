"""Write the senses of Senseval-2's hard, interest, line and serve as files that `probe-layers --senses` reads."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Optional

from elmo_plugin.common import atomic_file

DESCRIPTION = """
Split the instances of four words at random, four fifths for training, and write OUT/train.txt and OUT/dev.txt: one
token and its sense, or O, per line. The input is NLTK's corpus `senseval`.

  python -m experiments.senseval senseval runs/senses --seed 1
  elmo-plugin probe-layers english-tiny --senses runs/senses/train.txt runs/senses/dev.txt --control
"""
NO_SENSE = "O"


def parse(arguments: Optional[list[str]] = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        "python -m experiments.senseval",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="a folder with hard.pos, interest.pos, line.pos and serve.pos")
    parser.add_argument("output", metavar="OUT", type=Path, help="the folder to write to")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the split (default: 1)")
    return parser.parse_args(arguments)


def sentences(folder: Path) -> Iterator[str]:
    """Yield each instance as lines with a token and its sense."""
    import nltk  # takes two seconds
    from nltk.corpus.reader import SensevalCorpusReader

    nltk.data.path.append(str(folder))  # NLTK only reads from folders on this path
    for instance in SensevalCorpusReader(str(folder), r".*\.pos").instances():
        # NLTK returns a few tokens without a part of speech.
        tokens = [token if isinstance(token, str) else token[0] for token in instance.context]
        senses = [NO_SENSE] * len(tokens)
        senses[instance.position] = instance.senses[0]
        yield "".join(f"{token}\t{sense}\n" for token, sense in zip(tokens, senses, strict=True))


def main() -> None:
    """Write both files."""
    args = parse()
    shuffled = list(sentences(args.folder))
    Random(args.seed).shuffle(shuffled)
    n_dev = len(shuffled) // 5
    for name, part in (("train.txt", shuffled[n_dev:]), ("dev.txt", shuffled[:n_dev])):
        with atomic_file(args.output / name) as path:
            path.write_text("\n".join(part), encoding="utf-8")
    print(f"{len(shuffled) - n_dev:,} instances in {args.output}/train.txt, {n_dev:,} in {args.output}/dev.txt")


if __name__ == "__main__":
    main()
