"""How equal a sentence's vectors are: alone and in a batch, in another order, again, with one thread and with two."""

from collections.abc import Iterator, Sequence
from random import Random

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from benchmarks.settings import Settings
from benchmarks.systems import ALLENNLP, Embedder, all_systems
from benchmarks.table import Table
from benchmarks.text import Sentences, spread
from elmo_plugin.text import batch_to_ids

SENTENCES = 16
Layers = list[Tensor]
"""The layers (L, T + 2, D) of each sentence."""


def measure(settings: Settings) -> Iterator[Table]:
    """Yield one table with a row for each of our kernels and precisions."""
    sentences = spread(settings.text.sentences, SENTENCES)
    systems = [system for system in all_systems(settings.device) if system != ALLENNLP]
    rows = []
    for system in systems:
        embedder = system.load(settings.files, settings.device)
        rows.append([system.name, *compare(embedder, sentences, settings.device)])
    yield Table(
        "The same vector",
        f"{len(sentences)} sentences. The largest difference of any number of any layer, as a share of the largest "
        "number; 0 is bit for bit. The cosine is the lowest of any token at any layer.",
        [
            "",
            "the batch again",
            "in another order",
            "with 2 threads, not 1",
            "alone, not in the batch",
            "cosine of that",
        ],
        rows,
    )


def compare(embedder: Embedder, sentences: Sentences, device: torch.device) -> list[str]:
    """Return the cells of a row."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    batch = layers_of(embedder, sentences, device)
    again = layers_of(embedder, sentences, device)
    order = Random(0).sample(range(len(sentences)), len(sentences))
    shuffled = layers_of(embedder, [sentences[row] for row in order], device)
    alone = [layers_of(embedder, [sentence], device)[0] for sentence in sentences]
    torch.set_num_threads(2)
    threads = layers_of(embedder, sentences, device)
    torch.set_num_threads(before)
    ordered = [shuffled[order.index(row)] for row in range(len(sentences))]
    cosine = min(float(cosine_similarity(*pair, dim=-1).min()) for pair in zip(alone, batch, strict=True))
    return [*(f"{difference(found, batch):.0e}" for found in (again, ordered, threads, alone)), f"{cosine:.6f}"]


def layers_of(embedder: Embedder, sentences: Sentences, device: torch.device) -> Layers:
    """Return the layers of sentences that are embedded as one batch, with an empty word cache."""
    embedder.clear()
    layers = embedder.layers(batch_to_ids(sentences))  # (L, B, T + 2, D)
    return [layers[:, row, : len(sentence) + 2] for row, sentence in enumerate(sentences)]


def difference(found: Sequence[Tensor], wanted: Sequence[Tensor]) -> float:
    """Return the largest difference as a share of the largest number."""
    differences = [float((ours - theirs).abs().max()) for ours, theirs in zip(found, wanted, strict=True)]
    return max(differences) / max(float(each.abs().max()) for each in wanted)
