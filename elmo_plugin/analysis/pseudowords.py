"""Words with two senses made of any text: pairs of words put into one (Schütze 1992; Gale, Church & Yarowsky 1992)."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, Optional

from allennlp.common.checks import ConfigurationError
from more_itertools import grouper, unique_everseen

from elmo_plugin.analysis.labelled_sentences import LabelledSentence
from elmo_plugin.analysis.probing import Task, nearest_sense
from elmo_plugin.text import TextFile

MIN_COUNT, MAX_COUNT = 50, 500
"""How often a word may occur in a text: enough to average over, and not so often that it fills the table."""
LIKE = 0.9
"""The rarer word of a pair has at least so many occurrences for each of the other's."""
DEV_EACH = 5
"""One of so many sentences is for counting, the others for training."""


class Pair(NamedTuple):
    """Two words, which are the two senses of their pseudoword."""

    first: str
    second: str

    @property
    def pseudoword(self) -> str:
        """The token that takes the place of both."""
        return f"{self.first}-{self.second}"


def pseudoword_task(text: Path, pairs: int, seed: int, sentences: Optional[int] = None) -> Task:
    """Which of two words stood at the place of a pseudoword, by the nearest average.

    # Parameters

    text : of one tokenised sentence a line, read twice
    pairs : how many
    seed : of the draw
    sentences : the first so many lines of the text, or all

    Raises `ConfigurationError` for a text that cannot be read, or that has too few words to pair.
    """
    if str(text) == "-":
        raise ConfigurationError("a text for pseudowords is read twice; found the standard input, wanted a file")
    drawn = draw_pairs(Counter(chain.from_iterable(_sentences(text, sentences))), pairs, seed)
    if len(drawn) < pairs:
        raise ConfigurationError(
            f"{text}: found {len(drawn)} pairs of words that occur {MIN_COUNT} to {MAX_COUNT} times in it; "
            f"wanted {pairs}: a longer text, or fewer pairs"
        )
    made = list(unique_everseen(conflate(_sentences(text, sentences), drawn), key=lambda found: tuple(found.tokens)))
    if len(made) < DEV_EACH:
        found = f"{len(made)} sentence{'s' * (len(made) != 1)}"
        raise ConfigurationError(f"{text}: found {found} with a pseudoword; wanted {DEV_EACH} or more")
    train = [sentence for place, sentence in enumerate(made, 1) if place % DEV_EACH]
    return Task(train, made[DEV_EACH - 1 :: DEV_EACH], nearest_sense, str)


def draw_pairs(counts: Mapping[str, int], pairs: int, seed: int) -> list[Pair]:
    """So many pairs, or as many as there are, of words in small letters that occur about as often; none twice."""
    draw = random.Random(seed)
    words = sorted(word for word, n in counts.items() if word.isalpha() and word.islower() and _is_usual(n))
    draw.shuffle(words)  # words as frequent as one another meet by chance, not by the alphabet
    words.sort(key=counts.__getitem__)
    neighbours = [Pair(*two) for two in grouper(words, 2, incomplete="ignore")]
    alike = [pair for pair in neighbours if counts[pair.first] >= LIKE * counts[pair.second]]
    return draw.sample(alike, min(pairs, len(alike)))


def conflate(sentences: Iterable[list[str]], pairs: Iterable[Pair]) -> Iterator[LabelledSentence]:
    """The sentences with a word of a pair, the pseudoword in its place and the word as the label."""
    pseudowords = {word: pair.pseudoword for pair in pairs for word in pair}
    for tokens in sentences:
        labels = [token if token in pseudowords else None for token in tokens]
        if any(labels):
            yield LabelledSentence([pseudowords.get(token, token) for token in tokens], labels)


def _is_usual(count: int) -> bool:
    return MIN_COUNT <= count <= MAX_COUNT


def _sentences(text: Path, limit: Optional[int]) -> Iterator[list[str]]:
    return (line.split() for line in islice(TextFile(text).lines(), limit))
