"""Embed text with a frozen biLM: one batch, a corpus, one sentence."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from torch import Tensor

from benchmarks.agreement import Agreement, check, token_mask
from benchmarks.memory import peak_of
from benchmarks.products import BareProducts, limits, shapes_of
from benchmarks.settings import Settings
from benchmarks.systems import ALLENNLP, OURS, Embedder, System, all_systems, default_systems, embed_all
from benchmarks.table import AGREEMENT, TIMES, Table, time_cells
from benchmarks.text import Batching, Sentences, first_tokens, one_of_length, spread
from benchmarks.timing import Call, interleave
from elmo_plugin.lstm import KERNELS
from elmo_plugin.text import batch_to_ids

BATCH_SIZE = 32
SENTENCE_LENGTH = 20
MEMORY = ["peak", "beside the model"]
ABOUT_MEMORY = "Memory in MiB: the peak with the model, and the peak beside the loaded model."
PART = 5
"""Batch sizes are tried on every fifth sentence."""
ALLENNLP_BATCHINGS = [Batching(32, "sentences"), Batching(64, "sentences")]
OUR_BATCHINGS = {
    "cpu": [Batching(limit, "tokens") for limit in (1024, 2048, 4096, 8192)],
    "cuda": [Batching(limit, "tokens") for limit in (4096, 8192, 16384)],
}

Embedders = dict[System, Embedder]


def measure(settings: Settings) -> Iterator[Table]:
    """Yield the three tables, each as soon as it is measured."""
    yield one_batch(settings)
    yield corpus(settings)
    yield one_sentence(settings)


def one_batch(settings: Settings) -> Table:
    """Embed the same batch with every kernel and precision and an empty word cache, and measure memory."""
    sentences = spread(settings.text.sentences, BATCH_SIZE)
    ids = batch_to_ids(sentences)  # (B, T, C)
    embedders = load(all_systems(settings.device), settings)
    agreements = compare(embedders, ids)
    calls = cold_calls(embedders, ids) + limit_calls(settings, [sentences])
    times = interleave(calls, settings.repeats, settings.device)
    memory = memory_cells(embedders, settings, sentences)
    kernels = {system.kernel for system in embedders}
    absent = ", ".join(f"`{kernel}`" for kernel in KERNELS if kernel not in kernels) or "none"
    return Table(
        f"One batch of {len(sentences)} sentences",
        f"{sum(map(len, sentences))} tokens, the longest sentence has {ids.size(1)}; the word cache is empty. "
        f"Rounds: {settings.repeats}. {ABOUT_MEMORY} Kernels not measured: {absent}.",
        ["", *TIMES, AGREEMENT, *MEMORY],
        [
            [name, *time_cells(each, times[ALLENNLP.name]), str(agreements.get(name, "")), *memory.get(name, ["", ""])]
            for name, each in times.items()
        ],
    )


def corpus(settings: Settings) -> Table:
    """Embed a corpus, each system in batches of its best size. Ours computes each word only once."""
    sentences = first_tokens(settings.text.sentences, settings.tokens)
    n_tokens = sum(map(len, sentences))
    embedders = load(default_systems(settings.device), settings)
    part = spread(sentences, max(1, len(sentences) // PART))
    best = {system.name: best_batching(system, embedder, part, settings) for system, embedder in embedders.items()}
    batches = {name: list(batching.split(sentences)) for name, batching in best.items()}
    largest = max(batches[OURS.name], key=lambda batch: sum(map(len, batch)))
    agreements = compare(embedders, batch_to_ids(largest))
    calls = [
        corpus_call(system.name, embedder, batches[system.name], settings) for system, embedder in embedders.items()
    ]
    calls += limit_calls(settings, batches[OURS.name])
    times = interleave(calls, settings.long_repeats, settings.device, warm_up=False)
    return Table(
        f"A corpus of {n_tokens:,} tokens",
        f"{len(sentences):,} sentences sorted by length; the batch size is the best of those tried on every "
        f"{PART}th sentence. Ids are computed before. Rounds: {settings.long_repeats}.",
        ["", "batch", *TIMES, "tokens/s", AGREEMENT],
        [
            [
                name,
                str(best.get(name, best[OURS.name])),
                *time_cells(each, times[ALLENNLP.name]),
                f"{n_tokens / each.median:,.0f}",
                str(agreements.get(name, "")),
            ]
            for name, each in times.items()
        ],
    )


def one_sentence(settings: Settings) -> Table:
    """Embed a single sentence, with the word cache empty and with all its words cached."""
    sentence = one_of_length(settings.text.sentences, SENTENCE_LENGTH)
    ids = batch_to_ids([sentence])  # (1, T, C)
    embedders = load(default_systems(settings.device), settings)
    agreements = compare(embedders, ids)
    calls = cold_calls(embedders, ids)
    for system, embedder in load(default_systems(settings.device)[1:], settings).items():  # with caches of their own
        calls.append(Call(f"{system.name}, words cached", partial(embedder.embed, ids)))
    calls += limit_calls(settings, [[sentence]])
    times = interleave(calls, 4 * settings.repeats, settings.device)
    memory = memory_cells(embedders, settings, [sentence])
    return Table(
        f"One sentence of {len(sentence)} tokens",
        f"The word cache is empty unless a row says otherwise. Rounds: {4 * settings.repeats}. {ABOUT_MEMORY}",
        ["", *TIMES, AGREEMENT, *MEMORY],
        [
            [name, *time_cells(each, times[ALLENNLP.name]), str(agreements.get(name, "")), *memory.get(name, ["", ""])]
            for name, each in times.items()
        ],
    )


def memory_cells(systems: Iterable[System], settings: Settings, sentences: Sentences) -> dict[str, list[str]]:
    """Return the cells of each system's peak memory, by its name."""
    peaks = {system.name: peak_of(system, settings.files, settings.device, [sentences]) for system in systems}
    return {name: [f"{peak.with_model:,.0f}", f"{peak.beside_model:,.0f}"] for name, peak in peaks.items()}


def load(systems: Sequence[System], settings: Settings) -> Embedders:
    """Read the weights of each system."""
    return {system: system.load(settings.files, settings.device) for system in systems}


def compare(embedders: Embedders, ids: Tensor) -> dict[str, Agreement]:
    """Compare the layers of our systems with AllenNLP's. Raises `Disagreement`."""
    expected, mask = embedders[ALLENNLP].layers(ids), token_mask(ids)  # (L, B, T + 2, D), (B, T + 2)
    return {
        system.name: check(system.name, system.precision, embedder.layers(ids), expected, mask)
        for system, embedder in embedders.items()
        if system != ALLENNLP
    }


def cold_calls(embedders: Embedders, ids: Tensor) -> list[Call]:
    """Return calls that embed one batch with an empty word cache."""
    return [Call(system.name, partial(embedder.embed, ids), embedder.clear) for system, embedder in embedders.items()]


def corpus_call(name: str, embedder: Embedder, batches: Sequence[Sentences], settings: Settings) -> Call:
    """Return a call that embeds these batches, starting with an empty word cache."""
    ids = [batch_to_ids(batch) for batch in batches]  # (B, T, C) each
    return Call(name, partial(embed_all, embedder, ids), embedder.clear)


def limit_calls(settings: Settings, batches: Sequence[Sentences]) -> list[Call]:
    """Return calls that compute the bare products of these batches, without those of `<S>` and `</S>`."""
    shapes = shapes_of(batches, boundaries=0)
    products = limits(settings.options.lstm, settings.device)
    return [BareProducts(settings.options, product, settings.device).call(shapes) for product in products]


def best_batching(system: System, embedder: Embedder, part: Sentences, settings: Settings) -> Batching:
    """Return the fastest batch size of a system on these sentences."""
    every = ALLENNLP_BATCHINGS if system == ALLENNLP else OUR_BATCHINGS[settings.device.type]
    batchings = {str(each): each for each in every}
    calls = [corpus_call(name, embedder, list(each.split(part)), settings) for name, each in batchings.items()]
    embedder.embed(batch_to_ids(part[:1]))  # so that no size pays for the first call
    times = interleave(calls, 1, settings.device, warm_up=False)
    return batchings[min(times, key=lambda name: times[name].median)]
