"""Write the fastText vectors of the words of a treebank, which the variant `word_vectors` of a task reads."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Optional

import numpy as np

from elmo_plugin.common import atomic_file

DESCRIPTION = """
Write OUT, a word and its numbers per line, for the words of CoNLL-U files. VECTORS is the file `vectors` of a training
of fastText by `experiments.why_elmo`, and PACKAGES its folder with gensim. fastText has a vector for every word, also
for those that its text does not contain. The numbers are divided by their root mean square, so that they have the scale
of ELMo's:

  python -m experiments.word_vectors runs/why/fasttext/vectors words.txt --packages runs/why/packages \\
      perseus/train.conllu perseus/dev.conllu
"""


def parse(arguments: Optional[list[str]] = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        "python -m experiments.word_vectors",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("vectors", metavar="VECTORS", type=Path)
    parser.add_argument("output", metavar="OUT", type=Path)
    parser.add_argument("files", metavar="CONLLU", nargs="+", type=Path)
    parser.add_argument("--packages", type=Path, required=True, help="a folder with gensim")
    return parser.parse_args(arguments)


def words(files: Iterable[Path]) -> Iterator[str]:
    """Yield the words of CoNLL-U files, each line's second column."""
    for file in files:
        for line in file.read_text(encoding="utf-8").split("\n"):
            columns = line.split("\t")
            if len(columns) == 10:
                yield columns[1]


def write_vectors(of_word: Mapping[str, np.ndarray], files: Iterable[Path], output: Path) -> np.ndarray:
    """Write the vectors of the words of CoNLL-U files, each word once, and return them. (words, D)"""
    unique = list(dict.fromkeys(words(files)))
    vectors = np.stack([of_word[word] for word in unique])
    vectors /= np.sqrt((vectors**2).mean())
    with atomic_file(output) as partial, partial.open("w", encoding="utf-8") as file:
        for word, vector in zip(unique, vectors, strict=True):
            print(word, *(f"{number:.5f}" for number in vector), file=file)
    return vectors


def main() -> None:
    """Write the vectors that fastText gives."""
    args = parse()
    sys.path.append(str(args.packages))
    from gensim.models.fasttext import FastTextKeyedVectors  # not in the environment

    written = write_vectors(FastTextKeyedVectors.load(str(args.vectors)), args.files, args.output)
    print(f"{args.output}: {len(written):,} words, {written.shape[1]} numbers each")


if __name__ == "__main__":
    main()
