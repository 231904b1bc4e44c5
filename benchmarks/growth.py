"""How time and memory grow as the work grows."""

from collections.abc import Iterator, Sequence
from functools import partial
from math import log
from statistics import linear_regression
from typing import NamedTuple

from benchmarks.batches import Batching, to_ids
from benchmarks.contestants import AllenNlp, Contestant, Ours, embed_all
from benchmarks.memory import peak_of
from benchmarks.plot import INSTALL, draw
from benchmarks.settings import Settings
from benchmarks.table import Table, duration
from benchmarks.text import Sentences, first_tokens, spread, with_word_types
from benchmarks.timing import Call, interleave

CONTESTANTS: tuple[Contestant, ...] = (AllenNlp(), Ours())
BATCHING = Batching(32, "sentences")
PARTS = (8, 4, 2, 1)
"""N / 8, N / 4, … of the corpus' N tokens."""
BATCH_SIZES = (8, 16, 32, 64)
TOKENS_A_TYPE = (16, 8, 4, 2)
"""Word types are N / 16, N / 8, …"""


class Curve(NamedTuple):
    """What one contestant costs at each size of the work: seconds, or MiB beside the loaded model."""

    contestant: str
    of: str
    against: str
    sizes: Sequence[int]
    costs: Sequence[float]

    @property
    def slope(self) -> float:
        """Of the line through the logarithms: 1 where cost grows as the work does, 0 where it does not grow."""
        logs = ([log(value) for value in values] for values in (self.sizes, self.costs))
        return linear_regression(*logs).slope

    def said(self) -> list[str]:
        """The costs, as a table says them."""
        return [duration(cost) if self.of == "time" else f"{cost:,.0f} MiB" for cost in self.costs]


def measure(settings: Settings) -> Iterator[Table]:
    """One table of all curves; the plot beside it."""
    curves = [*time_against_tokens(settings)]
    for against, works in memory_works(settings).items():
        curves += [memory_curve(contestant, against, works, settings) for contestant in CONTESTANTS]
    drawn = draw(curves, settings.plot)
    yield Table(
        "Growth",
        f"Batches of {BATCHING}, sorted by length; a part of the corpus has its largest batch too. Memory is "
        "the peak beside the loaded model. The slope is that of the line through the logarithms: 1 is in "
        "proportion, 0 is flat. " + (f"Plot: `{settings.plot.name}`." if drawn else f"No plot: {INSTALL}."),
        ["", "of", "against", "slope", "from", "to", "costs"],
        [
            [
                curve.contestant,
                curve.of,
                curve.against,
                f"{curve.slope:.2f}",
                f"{curve.sizes[0]:,}",
                f"{curve.sizes[-1]:,}",
                ", ".join(curve.said()),
            ]
            for curve in curves
        ],
    )


def time_against_tokens(settings: Settings) -> Iterator[Curve]:
    """Corpora of rising length, every word new at the start of each."""
    works = corpora(settings)
    embedders = {one.name: one.load(settings.files, settings.device) for one in CONTESTANTS}
    costs: dict[str, list[float]] = {name: [] for name in embedders}
    for work in works:
        ids = [to_ids(batch, settings.device) for batch in work]  # (B, T, C) each
        calls = [Call(name, partial(embed_all, embedder, ids), embedder.forget) for name, embedder in embedders.items()]
        for name, timed in interleave(calls, settings.long_repeats, settings.device).items():
            costs[name].append(timed.median)
    sizes = [n_tokens(work) for work in works]
    for name, seconds in costs.items():
        yield Curve(name, "time", "tokens of the corpus", sizes, seconds)


class Work(NamedTuple):
    """How large it is, and its batches."""

    size: int
    batches: Sequence[Sentences]


def memory_works(settings: Settings) -> dict[str, list[Work]]:
    """What memory is measured against."""
    whole = first_tokens(settings.text.sentences, settings.tokens)
    types = [max(1, sum(map(len, whole)) // tokens) for tokens in TOKENS_A_TYPE]
    return {
        "tokens of the corpus": [Work(n_tokens(batches), batches) for batches in corpora(settings)],
        "sentences of a batch": [Work(size, [spread(settings.text.sentences, size)]) for size in BATCH_SIZES],
        "word types of the corpus": [
            Work(n_types, list(BATCHING.split(with_word_types(whole, n_types)))) for n_types in types
        ],
    }


def memory_curve(contestant: Contestant, against: str, works: Sequence[Work], settings: Settings) -> Curve:
    """The peak of each work, in a process of its own."""
    peaks = [peak_of(contestant, settings.files, settings.device, work.batches).beside_model for work in works]
    return Curve(contestant.name, "memory", against, [work.size for work in works], peaks)


def corpora(settings: Settings) -> list[list[Sentences]]:
    """Batches of a corpus and of its parts: every so manyth from the largest on, so that all have the largest."""
    batches = list(BATCHING.split(first_tokens(settings.text.sentences, settings.tokens)))
    return [batches[::-part] for part in PARTS]


def n_tokens(batches: Sequence[Sentences]) -> int:
    """Of all batches."""
    return sum(len(sentence) for batch in batches for sentence in batch)
