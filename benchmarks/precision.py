"""Embed few sentences, many, and a corpus in each precision: where does a precision pay?"""

from collections.abc import Iterator
from functools import partial

from benchmarks.embed import SENTENCE_LENGTH, load
from benchmarks.settings import Settings
from benchmarks.systems import OURS, default_systems, embed_all
from benchmarks.table import Table, duration
from benchmarks.text import Batching, first_tokens, one_of_length, spread
from benchmarks.timing import Call, interleave
from elmo_plugin.text import batch_to_ids

SENTENCES = (2, 4, 8, 32)
BATCHING = Batching(4096, "tokens")


def measure(settings: Settings) -> Iterator[Table]:
    """Yield one table, with a column for each precision that the device computes."""
    embedders = load(default_systems(settings.device)[1:], settings)
    sentences = settings.text.sentences
    texts = {"1 sentence": [[one_of_length(sentences, SENTENCE_LENGTH)]]}
    texts |= {f"{count} sentences": [spread(sentences, count)] for count in SENTENCES}
    texts["a corpus"] = list(BATCHING.split(first_tokens(sentences, settings.tokens)))
    rows = []
    for name, batches in texts.items():
        ids = [batch_to_ids(batch) for batch in batches]  # (B, T, C) each
        calls = [Call(each.name, partial(embed_all, embedders[each], ids), embedders[each].clear) for each in embedders]
        rounds = settings.long_repeats if name == "a corpus" else settings.repeats
        times = interleave(calls, rounds, settings.device)
        n_tokens = sum(len(sentence) for batch in batches for sentence in batch)
        first = times[OURS.name]
        cells = [f"{duration(each.median)}, {each.times_faster_than(first):.2f} ×" for each in times.values()]
        rows.append([f"{name}, {n_tokens:,} tokens", *cells])
    yield Table(
        "Precisions",
        "Medians, and times as fast as float32. The word cache is empty before each round; a corpus is embedded in "
        f"batches of {BATCHING}. Rounds: {settings.repeats}, for the corpus {settings.long_repeats}.",
        ["", *(system.precision for system in embedders)],
        rows,
    )
