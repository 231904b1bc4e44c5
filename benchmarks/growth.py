"""How time and memory grow with the size of the input."""

from collections.abc import Iterator, Sequence
from functools import partial
from math import log
from pathlib import Path
from statistics import linear_regression
from typing import NamedTuple

from benchmarks.memory import peak_of
from benchmarks.settings import Settings
from benchmarks.systems import ALLENNLP, OURS, embed_all
from benchmarks.table import Table, duration
from benchmarks.text import Batching, Sentences, first_tokens, spread, with_word_types
from benchmarks.timing import Call, interleave
from elmo_plugin.text import batch_to_ids

SYSTEMS = (ALLENNLP, OURS)
BATCHING = Batching(32, "sentences")
PARTS = (8, 4, 2, 1)
"""An eighth of the corpus' tokens, a quarter, …"""
BATCH_SIZES = (8, 16, 32, 64)
TOKENS_PER_TYPE = (16, 8, 4, 2)
"""A corpus of N tokens has N / 16 word types, N / 8, …"""
INSTALL = "matplotlib is not installed; run `pip install 'elmo-plugin[report]'`"
PANEL = (3.6, 3.2)
"""The size of a panel of the plot in inches."""


class Curve(NamedTuple):
    """The cost of one system at each input size: seconds, or MiB beside the loaded model."""

    system: str
    of: str
    against: str
    sizes: Sequence[int]
    costs: Sequence[float]

    @property
    def slope(self) -> float:
        """Return the slope of the line through the logarithms: 1 if cost is proportional to size, 0 if constant."""
        logs = ([log(value) for value in values] for values in (self.sizes, self.costs))
        return linear_regression(*logs).slope

    def row(self) -> list[str]:
        """Return the cells of the table."""
        costs = [duration(cost) if self.of == "time" else f"{cost:,.0f} MiB" for cost in self.costs]
        ends = [f"{self.sizes[0]:,}", f"{self.sizes[-1]:,}"]
        return [self.system, self.of, self.against, f"{self.slope:.2f}", *ends, ", ".join(costs)]


def measure(settings: Settings) -> Iterator[Table]:
    """Yield one table of all curves, and write the plot."""
    curves = [*time_against_tokens(settings), *memory_curves(settings)]
    plotted = plot(curves, settings.plot)
    yield Table(
        "Growth",
        f"Batches of {BATCHING}, sorted by length; each part of the corpus includes its largest batch. Memory is "
        "the peak beside the loaded model. The slope is that of the line through the logarithms: 1 means "
        "proportional, 0 constant. " + (f"Plot: `{settings.plot.name}`." if plotted else f"No plot: {INSTALL}."),
        ["", "of", "against", "slope", "from", "to", "costs"],
        [curve.row() for curve in curves],
    )


def time_against_tokens(settings: Settings) -> Iterator[Curve]:
    """Time parts of the corpus, each with an empty word cache at its start."""
    embedders = {system.name: system.load(settings.files, settings.device) for system in SYSTEMS}
    costs: dict[str, list[float]] = {name: [] for name in embedders}
    parts = corpus_parts(settings)
    for batches in parts:
        ids = [batch_to_ids(batch) for batch in batches]  # (B, T, C) each
        calls = [Call(name, partial(embed_all, each, ids), each.clear) for name, each in embedders.items()]
        for name, times in interleave(calls, settings.long_repeats, settings.device).items():
            costs[name].append(times.median)
    for name, seconds in costs.items():
        yield Curve(name, "time", "tokens of the corpus", list(map(n_tokens, parts)), seconds)


def memory_curves(settings: Settings) -> Iterator[Curve]:
    """Measure peak memory against the size of the corpus, of a batch and of the vocabulary."""
    whole = first_tokens(settings.text.sentences, settings.tokens)
    n_types = [max(1, sum(map(len, whole)) // tokens) for tokens in TOKENS_PER_TYPE]
    inputs: dict[str, dict[int, list[Sentences]]] = {
        "tokens of the corpus": {n_tokens(batches): batches for batches in corpus_parts(settings)},
        "sentences of a batch": {size: [spread(settings.text.sentences, size)] for size in BATCH_SIZES},
        "word types of the corpus": {n: list(BATCHING.split(with_word_types(whole, n))) for n in n_types},
    }
    for against, by_size in inputs.items():
        for system in SYSTEMS:
            peaks = [peak_of(system, settings.files, settings.device, batches) for batches in by_size.values()]
            yield Curve(system.name, "memory", against, list(by_size), [peak.beside_model for peak in peaks])


def corpus_parts(settings: Settings) -> list[list[Sentences]]:
    """Return the batches of the corpus and of its parts: every second batch from the largest on, every fourth, …"""
    batches = list(BATCHING.split(first_tokens(settings.text.sentences, settings.tokens)))
    return [batches[::-part] for part in PARTS]


def n_tokens(batches: Sequence[Sentences]) -> int:
    """Return the number of tokens of all batches."""
    return sum(len(sentence) for batch in batches for sentence in batch)


def plot(curves: Sequence[Curve], path: Path) -> bool:
    """Plot each cost against each size, on logarithmic scales. Return False if matplotlib is not installed."""
    try:
        from matplotlib import pyplot
        from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
    except ImportError:
        return False
    panels = list(dict.fromkeys((curve.of, curve.against) for curve in curves))
    size = (PANEL[0] * len(panels), PANEL[1])
    figure, axes = pyplot.subplots(1, len(panels), figsize=size, layout="constrained", squeeze=False)
    for axis, (of, against) in zip(axes[0], panels, strict=True):
        shown = [curve for curve in curves if (curve.of, curve.against) == (of, against)]
        for curve in shown:
            name = curve.system.replace("`", "")
            axis.plot(curve.sizes, curve.costs, marker="o", label=f"{name}, slope {curve.slope:.2f}")
        unit = "seconds" if of == "time" else "MiB beside the model"
        axis.set(xscale="log", yscale="log", xlabel=against, ylabel=unit)
        axis.set_xticks(shown[0].sizes, labels=[f"{size:,}" for size in shown[0].sizes])
        axis.set_xticks([], minor=True)
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axis.yaxis.set_minor_formatter(NullFormatter())
        low, high = axis.get_ylim()
        axis.set_ylim(low / 2, high * 4)  # a flat curve looks flat, and the legend has room
        axis.grid(alpha=0.3)
        axis.legend(fontsize="x-small", frameon=False, loc="upper left")
    figure.savefig(path)
    pyplot.close(figure)
    return True
