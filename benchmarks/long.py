"""Memory for long inputs: a line of 20,000 tokens, a sentence of 44,000 characters, a long line among short ones."""

from collections.abc import Iterator
from itertools import chain, islice

from benchmarks.memory import MIB, peak_of
from benchmarks.settings import Settings
from benchmarks.systems import System
from benchmarks.table import Table
from benchmarks.text import Sentences, spread

TOKENS = 20_000
CHARACTERS = 44_000
OTHERS = 31
FLOAT_BYTES = 4


def measure(settings: Settings) -> Iterator[Table]:
    """Yield one table. AllenNLP is left out: it convolves all tokens at once and would need most of a machine."""
    rows = []
    for name, batch in batches(settings.text.sentences).items():
        longest = max(map(len, batch))
        vectors = longest * len(batch) * settings.options.layer_dim * FLOAT_BYTES / MIB
        for system in (System(), System(precision="bfloat16")):
            peak = peak_of(system, settings.files, settings.device, [batch])
            rows.append([name, system.name, f"{longest:,}", f"{vectors:,.0f}", f"{peak.beside_model:,.0f}"])
    yield Table(
        "Long inputs",
        "MiB: the vectors that are returned, with padding, and the peak beside the loaded model.",
        ["", "", "longest, tokens", "vectors", "peak"],
        rows,
    )


def batches(sentences: Sentences) -> dict[str, Sentences]:
    """Return the inputs, each embedded in one call."""
    line = list(islice(chain.from_iterable(sentences), TOKENS))
    many_characters = line[: len(" ".join(line)[:CHARACTERS].split())]
    return {
        "a line of many tokens": [line],
        f"a sentence of {CHARACTERS:,} characters": [many_characters],
        f"a long line among {OTHERS} sentences": [line[: len(line) // 4], *spread(sentences, OTHERS)],
    }
