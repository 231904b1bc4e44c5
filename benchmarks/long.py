"""Memory for what is long: a line of 20,000 tokens, a sentence of 44,000 characters, a long line among short ones."""

from collections.abc import Iterator
from itertools import chain, islice

from benchmarks.contestants import Ours
from benchmarks.memory import MIB, peak_of
from benchmarks.settings import Settings
from benchmarks.table import Table
from benchmarks.text import Sentences, spread

TOKENS = 20_000
CHARACTERS = 44_000
COMPANY = 31
FLOAT_BYTES = 4


def measure(settings: Settings) -> Iterator[Table]:
    """One table; AllenNLP is not asked, for it convolves every token at once and would need most of a machine."""
    rows = []
    for name, batch in batches(settings.text.sentences).items():
        longest = max(map(len, batch))
        vectors = longest * len(batch) * settings.options.layer_dim * FLOAT_BYTES / MIB
        for contestant in (Ours(), Ours(precision="bfloat16")):
            peak = peak_of(contestant, settings.files, settings.device, [batch])
            rows.append([name, contestant.name, f"{longest:,}", f"{vectors:,.0f}", f"{peak.beside_model:,.0f}"])
    yield Table(
        "What is long",
        "MiB of the vectors that are asked for, padding included, and the peak beside the loaded model.",
        ["", "", "tokens of the longest", "vectors", "peak"],
        rows,
    )


def batches(sentences: Sentences) -> dict[str, Sentences]:
    """What is embedded, each in one call."""
    line = list(islice(chain.from_iterable(sentences), TOKENS))
    wordy = line[: len(" ".join(line)[:CHARACTERS].split())]
    return {
        "a line of many tokens": [line],
        f"a sentence of {CHARACTERS:,} characters": [wordy],
        f"a long line among {COMPANY} sentences": [line[: len(line) // 4], *spread(sentences, COMPANY)],
    }
