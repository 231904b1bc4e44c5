"""Text to vectors with a frozen biLM: one batch, a corpus, one sentence."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple, Optional

from torch import Tensor

from benchmarks.agreement import Agreement, check, tokens_of
from benchmarks.batches import Batching, to_ids
from benchmarks.contestants import AllenNlp, Contestant, Embedder, Ours, embed_all, everyone, the_default
from benchmarks.memory import Peak, peak_of
from benchmarks.products import BareProducts, limits, shapes_of
from benchmarks.settings import Settings
from benchmarks.table import Table, time_cells
from benchmarks.text import Sentences, first_tokens, one_of_length, spread
from benchmarks.timing import Call, interleave
from elmo_plugin.lstm import KERNELS

BATCH_SIZE = 32
SENTENCE_LENGTH = 20
PART = 5
"""Batch sizes are tried on every fifth sentence."""
ALLENNLP_BATCHINGS = [Batching(32, "sentences"), Batching(64, "sentences")]
OUR_BATCHINGS = [Batching(limit, "tokens") for limit in (1024, 2048, 4096, 8192)]
TIMES = ["median", "min–max", "× AllenNLP"]


class Loaded(NamedTuple):
    """A contestant with its weights."""

    contestant: Contestant
    embedder: Embedder

    @property
    def name(self) -> str:
        """The contestant's."""
        return self.contestant.name


def measure(settings: Settings) -> Iterator[Table]:
    """The three tables, each when it is done."""
    yield one_batch(settings)
    yield corpus(settings)
    yield one_sentence(settings)


def one_batch(settings: Settings) -> Table:
    """One and the same batch, every word new, for every kernel and precision; and memory."""
    sentences = spread(settings.text.sentences, BATCH_SIZE)
    ids = to_ids(sentences, settings.device)  # (B, T, C)
    contestants = load(everyone(settings.device), settings)
    agreements = compare(contestants, ids)
    calls = cold_calls(contestants, ids) + limit_calls(settings, [sentences])
    timed = interleave(calls, settings.repeats, settings.device)
    peaks = {one.name: peak_of(one.contestant, settings.files, settings.device, [sentences]) for one in contestants}
    return Table(
        f"One batch of {len(sentences)} sentences",
        f"{sum(map(len, sentences))} tokens, the longest sentence has {ids.size(1)}; every word is new. "
        f"Rounds: {settings.repeats}. Memory in MiB: the peak with the model, and that beside the loaded model. "
        f"Kernels that do not run here: {absent_kernels(contestants)}.",
        ["", *TIMES, "largest difference, cosine", "peak", "beside the model"],
        [
            [
                name,
                *time_cells(times, timed[AllenNlp().name]),
                said(agreements.get(name)),
                *memory_cells(peaks.get(name)),
            ]
            for name, times in timed.items()
        ],
    )


def corpus(settings: Settings) -> Table:
    """A corpus, each side batched its best way; a word is computed once if the contestant can remember it."""
    sentences = first_tokens(settings.text.sentences, settings.tokens)
    n_tokens = sum(map(len, sentences))
    contestants = load(the_default(), settings)
    best = {one.name: best_batching(one, sentences, settings) for one in contestants}
    batched = {name: list(batching.split(sentences)) for name, batching in best.items()}
    largest = max(batched[Ours().name], key=lambda batch: sum(map(len, batch)))
    agreements = compare(contestants, to_ids(largest, settings.device))
    calls = []
    for one in contestants:
        ids = [to_ids(batch, settings.device) for batch in batched[one.name]]  # (B, T, C) each
        calls.append(Call(one.name, partial(embed_all, one.embedder, ids), one.embedder.forget))
    calls += limit_calls(settings, batched[Ours().name])
    timed = interleave(calls, settings.long_repeats, settings.device, warm_up=False)
    return Table(
        f"A corpus of {n_tokens:,} tokens",
        f"{len(sentences):,} sentences sorted by length; the size of a batch is the best of those tried on every "
        f"{PART}th sentence. Ids are made before. Rounds: {settings.long_repeats}.",
        ["", "batch", *TIMES, "tokens/s", "largest difference, cosine"],
        [
            [
                name,
                str(best.get(name, best[Ours().name])),
                *time_cells(times, timed[AllenNlp().name]),
                f"{n_tokens / times.median:,.0f}",
                said(agreements.get(name)),
            ]
            for name, times in timed.items()
        ],
    )


def one_sentence(settings: Settings) -> Table:
    """The time to the vectors of a single sentence, its words new, and its words known."""
    sentence = one_of_length(settings.text.sentences, SENTENCE_LENGTH)
    ids = to_ids([sentence], settings.device)  # (1, T, C)
    contestants = load(the_default(), settings)
    agreements = compare(contestants, ids)
    calls = cold_calls(contestants, ids)
    for one in load(the_default()[1:], settings):  # apart from those that forget
        calls.append(Call(f"{one.name}, words known", partial(one.embedder.embed, ids)))
    calls += limit_calls(settings, [[sentence]])
    timed = interleave(calls, 4 * settings.repeats, settings.device)
    return Table(
        f"One sentence of {len(sentence)} tokens",
        f"Every word is new unless a line says otherwise. Rounds: {4 * settings.repeats}.",
        ["", *TIMES, "largest difference, cosine"],
        [
            [name, *time_cells(times, timed[AllenNlp().name]), said(agreements.get(name))]
            for name, times in timed.items()
        ],
    )


def absent_kernels(contestants: Sequence[Loaded]) -> str:
    """Those that none of them runs, as a sentence says them."""
    present = {one.contestant.kernel for one in contestants if isinstance(one.contestant, Ours)}
    return ", ".join(f"`{kernel}`" for kernel in KERNELS if kernel not in present) or "none"


def load(contestants: Sequence[Contestant], settings: Settings) -> list[Loaded]:
    """Read the weights of each."""
    return [Loaded(each, each.load(settings.files, settings.device)) for each in contestants]


def cold_calls(contestants: Sequence[Loaded], ids: Tensor) -> list[Call]:
    """One batch, every word new."""
    return [Call(one.name, partial(one.embedder.embed, ids), one.embedder.forget) for one in contestants]


def compare(contestants: Sequence[Loaded], ids: Tensor) -> dict[str, Agreement]:
    """Check the layers of all against those of the first, AllenNLP; raises `Disagreement`."""
    wanted = contestants[0].embedder.layers(ids)  # (L, B, T + 2, D)
    return {
        one.name: check(one.name, one.contestant.precision, one.embedder.layers(ids), wanted, tokens_of(ids))
        for one in contestants[1:]
    }


def limit_calls(settings: Settings, batches: Sequence[Sentences]) -> list[Call]:
    """The bare products of these batches."""
    shapes = shapes_of(batches)
    ways = limits(settings.options.lstm, settings.device)
    calls = []
    for product in ways:
        bare = BareProducts(settings.options, product, settings.device)
        bare.reserve(shapes)
        calls.append(Call(bare.name, partial(bare, shapes)))
    return calls


def best_batching(one: Loaded, sentences: Sentences, settings: Settings) -> Batching:
    """The fastest of its batchings on a part of the sentences."""
    part = spread(sentences, max(1, len(sentences) // PART))
    tried = ALLENNLP_BATCHINGS if isinstance(one.contestant, AllenNlp) else OUR_BATCHINGS
    calls = []
    for batching in tried:
        ids = [to_ids(batch, settings.device) for batch in batching.split(part)]  # (B, T, C) each
        calls.append(Call(str(batching), partial(embed_all, one.embedder, ids), one.embedder.forget))
    one.embedder.embed(ids[0])  # what a first call costs is not the first batching's fault
    timed = interleave(calls, 1, settings.device, warm_up=False)
    return min(tried, key=lambda batching: timed[str(batching)].median)


def said(agreement: Optional[Agreement]) -> str:
    """Nothing for what is not compared."""
    return "" if agreement is None else str(agreement)


def memory_cells(peak: Optional[Peak]) -> list[str]:
    """Nothing for the limit."""
    return ["", ""] if peak is None else [f"{peak.with_model:,.0f}", f"{peak.beside_model:,.0f}"]
