"""Minimal pairs: does a language model give a grammatical sentence more probability than an ungrammatical one?"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from allennlp.common.checks import ConfigurationError
from allennlp.data import Tokenizer
from more_itertools import map_reduce

from elmo_plugin.common import atomic_file, parse_json
from elmo_plugin.text import TextFile, without_lone_surrogates

ROUNDING = 1e-4
"""Log probabilities that differ by less than this, in nats, are a tie: float32 sums have errors of this size."""


class MinimalPair(NamedTuple):
    """A grammatical and an ungrammatical sentence that differ in one phenomenon only, and their `row` in the file."""

    good: list[str]
    bad: list[str]
    phenomenon: str
    row: dict[str, Any]


class PairAccuracy(NamedTuple):
    """The percentage of pairs whose grammatical sentence is more probable. A tie counts as half a pair.

    `ties` is the number of pairs whose sums are equal.
    """

    forward: float
    backward: float
    sum: float
    ties: int
    pairs: int


def read_pairs(path: Path, tokenizer: Tokenizer, key: str) -> list[MinimalPair]:
    """Read pairs in the format of BLiMP: JSON lines with `sentence_good` and `sentence_bad`.

    # Parameters

    key : `str`
        The key of a pair's phenomenon. A pair without this key counts only in the total.

    Raises `ConfigurationError` that names the file and the line for any other line, and for a file without pairs.
    """
    pairs = []
    for number, line in enumerate(TextFile(path).lines(), 1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
            texts = [without_lone_surrogates(row[name]) for name in ("sentence_good", "sentence_bad")]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigurationError(
                f"{path}, line {number}: expected a JSON object with the strings 'sentence_good' and "
                f"'sentence_bad', got {line.strip()[:100]}"
            ) from error
        good, bad = ([token.ensure_text() for token in tokenizer.tokenize(text)] for text in texts)
        pairs.append(MinimalPair(good, bad, "" if row.get(key) is None else str(row[key]), row))
    if not pairs:
        raise ConfigurationError(f"{path}: expected pairs of sentences, got none")
    return pairs


def score_pairs(score: Callable[[Sequence[Sequence[str]]], np.ndarray], pairs: Sequence[MinimalPair]) -> np.ndarray:
    """Return the log probabilities (N, 2, 2) of N pairs: first the grammatical sentence, forward and backward.

    `score` returns those (M, 2) of M sentences, forward and backward. Each distinct sentence is scored once.
    """
    sentences = list({tuple(words) for pair in pairs for words in (pair.good, pair.bad)})
    scores = dict(zip(sentences, score(sentences), strict=True))
    return np.array([[scores[tuple(pair.good)], scores[tuple(pair.bad)]] for pair in pairs])


def write_scores(path: Path, pairs: Sequence[MinimalPair], scores: np.ndarray) -> None:
    """Write each pair as a line of JSON: the keys of its file and the log probabilities (N, 2, 2), in nats."""
    with atomic_file(path) as partial, partial.open("w", encoding="utf-8") as file:
        for pair, (good, bad) in zip(pairs, scores.tolist(), strict=True):
            found = {"forward_good": good[0], "forward_bad": bad[0], "backward_good": good[1], "backward_bad": bad[1]}
            file.write(json.dumps({**pair.row, **found}) + "\n")


def pair_accuracies(pairs: Sequence[MinimalPair], scores: np.ndarray) -> tuple[dict[str, PairAccuracy], PairAccuracy]:
    """Return the accuracy of each phenomenon, in alphabetical order, and of all pairs together.

    A pair is right if its grammatical sentence has the higher log probability: forward, backward, or in sum (Warstadt
    et al. 2020, §4, for the forward direction). Log probabilities (N, 2, 2) are those of `score_pairs`.
    """
    differences = scores[:, 0] - scores[:, 1]  # (N, 2)
    rows = np.column_stack([differences, differences.sum(axis=1)])  # (N, 3)
    verdicts = np.where(np.abs(rows) < ROUNDING, 0.5, rows > 0)  # (N, 3): right 1, tie 0.5, wrong 0
    rows_of = map_reduce(range(len(pairs)), lambda row: pairs[row].phenomenon)
    return {name: _accuracy(verdicts[rows_of[name]]) for name in sorted(rows_of) if name}, _accuracy(verdicts)


def _accuracy(verdicts: np.ndarray) -> PairAccuracy:
    """Return the accuracy of N pairs from their verdicts (N, 3)."""
    forward, backward, both = 100 * verdicts.mean(axis=0)
    return PairAccuracy(forward, backward, both, int((verdicts[:, 2] == 0.5).sum()), len(verdicts))
