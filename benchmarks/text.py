"""Natural text: a file's sentences, or made-up ones whose words and lengths are spread as those of English."""

from itertools import accumulate, chain
from math import log10
from random import Random
from typing import NamedTuple, Optional

from elmo_plugin.pretraining.shards import find_shards, read_lines

Sentences = list[list[str]]
WORD_TYPES = 50_000
"""Ranks that made-up words are drawn from."""
EXPONENT = 1.2
"""With these, 50,000 tokens hold some 8,000 different words, as English newspapers do."""


class Text(NamedTuple):
    """Tokenised sentences, and where they come from in words that a table can carry."""

    sentences: Sentences
    origin: str


def read_text(pattern: Optional[str], n_tokens: int) -> Text:
    """The sentences of the files that a path or pattern names, one a line; without one, about `n_tokens` made up.

    Raises `ConfigurationError` for a pattern that names no file, and for files that are no text.
    """
    if pattern is None:
        return Text(
            made_up(n_tokens),
            f"made up: words by the Zipf–Mandelbrot law over {WORD_TYPES:,} ranks, sentence lengths log-normal "
            "(median 14, σ 0.65)",
        )
    shards = find_shards(pattern)
    sentences = [line.split() for line in chain.from_iterable(map(read_lines, shards))]
    return Text(
        sentences,
        f"`{shards[0].name}`" + f" and {len(shards) - 1} more" * (len(shards) > 1) + f", {len(sentences):,} sentences",
    )


def made_up(n_tokens: int, seed: int = 0) -> Sentences:
    """Sentences until there are `n_tokens`: rank r with probability ∝ 1 / (r + 2.7)ˢ (Mandelbrot 1953)."""
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
    """The same letters for the same rank; rare words are longer, as in English."""
    random = Random(rank)
    length = max(1, round(random.gauss(1.8 + 1.5 * log10(rank), 1.8)))
    return "".join(random.choices("etaoinshrdlucmfwypvbgkjqxz", weights=range(26, 0, -1), k=length))


def first_tokens(sentences: Sentences, n_tokens: int) -> Sentences:
    """Sentences from the start on, until they hold `n_tokens`, or all of them."""
    ends = accumulate(map(len, sentences))
    return sentences[: 1 + sum(end < n_tokens for end in ends)]


def spread(sentences: Sentences, count: int) -> Sentences:
    """Every so manyth sentence, `count` of them: of natural lengths, and of all parts of the text."""
    step = max(1, len(sentences) // count)
    return sentences[::step][:count]


def one_of_length(sentences: Sentences, length: int) -> list[str]:
    """A sentence of this many tokens, or the start of the longest one."""
    exact = (sentence for sentence in sentences if len(sentence) == length)
    return next(exact, max(sentences, key=len)[:length])


def with_word_types(sentences: Sentences, n_types: int) -> Sentences:
    """The same lengths, written with `n_types` different words, each as often as the others."""
    found = list(dict.fromkeys(chain.from_iterable(sentences)))[:n_types]
    words = found + [f"{made_up_word(rank)}{rank}" for rank in range(1, n_types - len(found) + 1)]
    counter = iter(range(sum(map(len, sentences))))
    return [[words[next(counter) % n_types] for _ in sentence] for sentence in sentences]
