"""Score minimal pairs with a 5-gram model, to compare a biLM with a model that sees only neighbouring words."""

import argparse
import math
import re
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Optional

import numpy as np
from allennlp.data import Tokenizer

from elmo_plugin.analysis import minimal_pairs_page, pair_accuracies, read_pairs, score_pairs

UNKNOWN = "UNKNOWN-WORD"
"""The word that `benchmarks/kenlm.sh` writes for one that is not in the vocabulary."""
DESCRIPTION = """
Print the table of `minimal-pairs` for the forward and backward 5-gram models that benchmarks/kenlm.sh wrote.
They use the same tokens and the same vocabulary as the biLM:

  benchmarks/kenlm.sh novels exported/vocabulary.txt kenlm/build/bin /tmp/kenlm
  python -m experiments.five_gram kenlm/build/bin /tmp/kenlm exported/vocabulary.txt blimp/pairs.jsonl
"""


def parse(arguments: Optional[list[str]] = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        "python -m experiments.five_gram", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kenlm", metavar="KENLM", type=Path, help="a folder with KenLM's program `query`")
    parser.add_argument("models", metavar="OUT", type=Path, help="a folder with forward.bin and backward.bin")
    parser.add_argument("vocabulary", metavar="VOCABULARY", type=Path, help="one word per line")
    parser.add_argument("pairs", metavar="PAIRS", type=Path, help="JSON lines, as for `elmo-plugin minimal-pairs`")
    return parser.parse_args(arguments)


def log_probabilities(query: Path, model: Path, sentences: Sequence[Sequence[str]]) -> list[float]:
    """Return the natural logarithm of the probability of each sentence, including its end."""
    text = "".join(f"{' '.join(words)}\n" for words in sentences)
    run = subprocess.run([query, "-v", "sentence", model], input=text.encode(), stdout=subprocess.PIPE, check=True)
    totals = re.findall(r"Total: (\S+) OOV: 0$", run.stdout.decode(), re.MULTILINE)
    if len(totals) != len(sentences):
        raise ValueError(f"{model}: expected {len(sentences)} sentences without unknown words, got {len(totals)}")
    return [float(total) * math.log(10) for total in totals]


def score(args: argparse.Namespace, vocabulary: set[str], sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """Return the log probabilities (N, 2) of N sentences, forward and backward."""
    mapped = [[word if word in vocabulary else UNKNOWN for word in words] for words in sentences]
    query = args.kenlm / "query"
    forward = log_probabilities(query, args.models / "forward.bin", mapped)
    backward = log_probabilities(query, args.models / "backward.bin", [words[::-1] for words in mapped])
    return np.column_stack([forward, backward])


def main(arguments: Optional[list[str]] = None) -> None:
    """Score the pairs and print the table."""
    args = parse(arguments)
    pairs = read_pairs(args.pairs, Tokenizer.by_name("spacy_blank")(), "linguistics_term")
    vocabulary = set(args.vocabulary.read_text(encoding="utf-8").split("\n"))
    scores = score_pairs(partial(score, args, vocabulary), pairs)
    print(minimal_pairs_page(f"5-gram on {args.pairs}", *pair_accuracies(pairs, scores)))


if __name__ == "__main__":
    main()
