"""A text to embed, the whole work, and runs of it that are broken off."""

import random
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pytest

from elmo_plugin.embedding import Corpus, CorpusEmbedder, Embedder, VectorFile, load
from elmo_plugin.embedding.corpus_embedder import Counts
from elmo_plugin.text import AsciiSpacesTokenizer

BATCH = 20
"""Tokens in a batch."""
CHARACTERS = 20 * BATCH
"""Characters in a window, of some five batches."""


def write_text(path: Path, lines: int) -> list[str]:
    """Natural lengths, some lines empty, some repeated, no few words seen once."""
    draw = random.Random(0)
    words = ["the", "boat", "日本語", "and/or", *(f"word{number}" for number in range(300))]
    text = ["The boat leaks .", ""]
    while len(text) < lines:
        repeated = draw.choice(text)
        new = " ".join(draw.choices(words, k=draw.choice([0, 1, 3, 5, 14])))
        text.append(repeated if draw.random() < 0.1 else new)
    path.write_text("".join(f"{line}\n" for line in text[:lines]), encoding="utf-8")
    return text[:lines]


def embed(
    folder: Path,
    target: str,
    file: VectorFile,
    text: str = "text",
    bilm: str = "bilm",
    processes: Optional[int] = 1,
    initial_state: str = "zero",
    **keys: Any,
) -> Counts:
    """Embed a text."""
    embedder = CorpusEmbedder(load(folder / bilm, initial_state=initial_state), **{"tokens_per_batch": BATCH, **keys})
    return embedder.embed(Corpus(folder / text, AsciiSpacesTokenizer()), folder / target, file, processes)


def break_off(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """From now on the biLM fails after so many batches."""
    vectors, left = Embedder._vectors, [after]

    def failing(self: Embedder, sentences: Any, half: bool) -> np.ndarray:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return vectors(self, sentences, half)

    monkeypatch.setattr(Embedder, "_vectors", failing)
