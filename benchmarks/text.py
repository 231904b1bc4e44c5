"""Sentences to measure with, from a file or made up with the word and length distributions of English."""

import sys
from collections.abc import Iterator
from itertools import accumulate, chain
from math import log10
from random import Random
from typing import NamedTuple, Optional

from elmo_plugin.pretraining.vocabulary import shard_lines
from elmo_plugin.text import find_shards, length_batches

Sentences = list[list[str]]
WORD_TYPES = 50_000
"""The number of different words in made-up text."""
EXPONENT = 1.2
"""The exponent of the Zipf–Mandelbrot law. At 1.2, 50,000 tokens have about 8,000 different words, as in newspapers."""


class Text(NamedTuple):
    """Tokenized sentences, and a description of their source for the tables."""

    sentences: Sentences
    origin: str


class Batching(NamedTuple):
    """The size of a batch: at most `limit` sentences, or at most `limit` tokens with padding and boundaries."""

    limit: int
    unit: str

    def __str__(self) -> str:
        return f"{self.limit:,} {self.unit}"

    def split(self, sentences: Sentences) -> Iterator[Sentences]:
        """Yield batches of sentences of similar length, shortest first."""
        lengths = list(map(len, sentences))
        budget = (self.limit, None) if self.unit == "tokens" else (sys.maxsize, self.limit)
        for batch in length_batches(lengths, *budget):
            yield [sentences[index] for index in batch]


def read_text(pattern: Optional[str], n_tokens: int) -> Text:
    """Read one sentence per line from the files that a path or pattern names, or make up about `n_tokens` tokens.

    Raises `ConfigurationError` if no file matches or if a file is not text.
    """
    if pattern is None:
        origin = (
            f"made up: words by the Zipf–Mandelbrot law over {WORD_TYPES:,} ranks, sentence lengths log-normal "
            "(median 14, σ 0.65)"
        )
        return Text(made_up(n_tokens), origin)
    shards = find_shards(pattern)
    sentences = [line.split() for line in chain.from_iterable(map(shard_lines, shards))]
    others = f" and {len(shards) - 1} more" if len(shards) > 1 else ""
    return Text(sentences, f"`{shards[0].name}`{others}, {len(sentences):,} sentences")


def made_up(n_tokens: int, seed: int = 0) -> Sentences:
    """Make up sentences of `n_tokens` tokens; rank r has a probability ∝ 1 / (r + 2.7)ˢ (Mandelbrot 1953)."""
    random = Random(seed)
    weights = list(accumulate((rank + 2.7) ** -EXPONENT for rank in range(1, WORD_TYPES + 1)))
    sentences: Sentences = []
    left = n_tokens
    while left > 0:
        length = min(max(1, round(random.lognormvariate(2.64, 0.65))), 120, left)
        ranks = random.choices(range(1, WORD_TYPES + 1), cum_weights=weights, k=length)
        sentences.append([made_up_word(rank) for rank in ranks])
        left -= length
    return sentences


def made_up_word(rank: int) -> str:
    """Return the letters that stand for a rank. Rare words are longer, as in English."""
    random = Random(rank)
    length = max(1, round(random.gauss(1.8 + 1.5 * log10(rank), 1.8)))
    return "".join(random.choices("etaoinshrdlucmfwypvbgkjqxz", weights=range(26, 0, -1), k=length))


def distinct_words(words: list[str], count: int) -> list[str]:
    """Return `count` different words: first the given words, then made-up ones."""
    known = list(dict.fromkeys(words))[:count]
    return known + [f"{made_up_word(rank)}{rank}" for rank in range(1, count - len(known) + 1)]


def first_tokens(sentences: Sentences, n_tokens: int) -> Sentences:
    """Return the first sentences, up to `n_tokens` tokens and the end of the sentence, or all of them."""
    ends = accumulate(map(len, sentences))
    return sentences[: 1 + sum(end < n_tokens for end in ends)]


def spread(sentences: Sentences, count: int) -> Sentences:
    """Return `count` sentences at equal distances, so that they have natural lengths and come from the whole text."""
    step = max(1, len(sentences) // count)
    return sentences[::step][:count]


def one_of_length(sentences: Sentences, length: int) -> list[str]:
    """Return a sentence of this many tokens, or the start of the longest one."""
    exact = (sentence for sentence in sentences if len(sentence) == length)
    return next(exact, max(sentences, key=len)[:length])


def with_word_types(sentences: Sentences, n_types: int) -> Sentences:
    """Return sentences of the same lengths that use `n_types` different words, each equally often."""
    words = distinct_words(list(chain.from_iterable(sentences)), n_types)
    counter = iter(range(sum(map(len, sentences))))
    return [[words[next(counter) % n_types] for _ in sentence] for sentence in sentences]
