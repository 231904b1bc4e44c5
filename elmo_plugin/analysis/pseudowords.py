"""Make pseudowords: pairs of words merged into one token (Schütze 1992; Gale, Church & Yarowsky 1992)."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Optional

from allennlp.common.checks import ConfigurationError
from more_itertools import grouper, unique_everseen

from elmo_plugin.analysis.probing import LabelledSentence, ProbingTask, nearest_sense
from elmo_plugin.embedding import read_lines
from elmo_plugin.text import TextFile, split_tokens

MIN_COUNT, MAX_COUNT = 50, 500
"""The allowed counts of a word in the text: enough to average over, and not so many that the word dominates."""
MIN_RATIO = 0.9
"""The smallest ratio between the counts of the two words of a pair."""
DEV_EACH = 5
"""One sentence in this many is for evaluation, the others are for training."""


def pseudoword_task(text: Path, pairs: int, seed: int, sentences: Optional[int] = None) -> ProbingTask:
    """Return the task of telling which of two words a pseudoword replaced, by the nearest average.

    # Parameters

    text : one tokenized sentence per line
    pairs : the number of pseudowords
    seed : the seed for drawing the pairs
    sentences : how many lines of the text to read; `None` reads all

    Raises `ConfigurationError` if the text cannot be read or has too few words to pair.
    """
    tokenized = [split_tokens(row.text) for row in islice(read_lines(TextFile(text).lines(), str(text)), sentences)]
    drawn = draw_pairs(Counter(chain.from_iterable(tokenized)), pairs, seed)
    if len(drawn) < pairs:
        raise ConfigurationError(
            f"{text}: expected {pairs} pairs of words that occur {MIN_COUNT} to {MAX_COUNT} times, got {len(drawn)}: "
            "use a longer text or fewer pairs"
        )
    made = list(unique_everseen(conflate(tokenized, drawn), key=lambda sentence: tuple(sentence.tokens)))
    train = [sentence for number, sentence in enumerate(made, 1) if number % DEV_EACH]
    return ProbingTask(train, made[DEV_EACH - 1 :: DEV_EACH], nearest_sense, str)


def draw_pairs(counts: Mapping[str, int], pairs: int, seed: int) -> list[tuple[str, str]]:
    """Draw up to `pairs` pairs of lower-case words that occur about equally often; each word is in one pair."""
    draw = random.Random(seed)
    words = sorted(
        word for word, n in counts.items() if word.isalpha() and word.islower() and MIN_COUNT <= n <= MAX_COUNT
    )
    draw.shuffle(words)  # so that words with equal counts are paired by chance, not by the alphabet
    words.sort(key=counts.__getitem__)
    neighbours = grouper(words, 2, incomplete="ignore")
    similar = [(rarer, other) for rarer, other in neighbours if counts[rarer] >= MIN_RATIO * counts[other]]
    return draw.sample(similar, min(pairs, len(similar)))


def conflate(sentences: Iterable[list[str]], pairs: Iterable[tuple[str, str]]) -> Iterator[LabelledSentence]:
    """Yield the sentences that contain a word of a pair. Its pseudoword replaces the word, which becomes the label."""
    pseudowords = {word: "-".join(pair) for pair in pairs for word in pair}
    for tokens in sentences:
        labels = [token if token in pseudowords else None for token in tokens]
        if any(labels):
            yield LabelledSentence([pseudowords.get(token, token) for token in tokens], labels)
