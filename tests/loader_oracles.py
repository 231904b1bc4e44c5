"""Text for the loaders of pretraining, the loaders as a config makes them, and what bilm-tf makes of the same text."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from allennlp.common import Params
from allennlp.data import DataLoader

from elmo_plugin.pretraining import TextShardsReader
from elmo_plugin.pretraining.vocabulary import MARKS, vocabulary_of

LINES = [
    "the ferry left",
    "fog",
    "a gull sat on the wall and watched the sea for a while before it left",
    "naïve Straße Ελλάδα привет שלום مرحبا नमस्ते ภาษาไทย 東京 한국어 😀 𝔘 e\u0301",
    "on and on",
    "the fog <UNK> left",
    "the letter",
    "é" * 150,
    "she read the letter on the ferry",
    "no",
    "a wall",
]
SENTENCES = [line.split() for line in LINES]
WORDS = [*MARKS, *sorted({word for sentence in SENTENCES for word in sentence} - set(MARKS))]
"""Lines of a vocabulary file that has every word of the text."""
Row = tuple[list[str], list[str]]
"""What one stream reads in a window, and what it should predict."""


def write_shards(folder: Path, lines: list[str] = LINES) -> str:
    """The lines in two files; return the pattern that names them."""
    half = len(lines) // 2
    for name, part in (("a.txt", lines[:half]), ("b.txt", lines[half:])):
        if part:
            (folder / name).write_text("".join(f"{line}\n" for line in part), encoding="utf-8")
    return str(folder / "*.txt")


def build_loader(data_path: str, words: list[str] = WORDS, **keys: Any) -> Any:
    """The loader that a config makes, with its vocabulary."""
    loader = DataLoader.from_params(Params(keys), reader=TextShardsReader(), data_path=data_path)
    loader.index_with(vocabulary_of(words))
    return loader


def id_of(word: str) -> int:
    """The number of a word's line."""
    return WORDS.index(word) + 1 if word in WORDS else 3


def through_a_file(state: dict[str, Any], path: Path) -> dict[str, Any]:
    """Write a state and read it back, as a checkpoint does."""
    torch.save(state, path)
    return torch.load(path, weights_only=True)


def assert_equal(found: Any, wanted: Any) -> None:
    """Of nested dicts, lists and tensors, to the last bit."""
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def plain_windows(
    sentences: Iterable[list[str]], streams: int, window: int, backward: bool = False
) -> Iterator[list[Row]]:
    """The windows of one direction, a word at a time.

    As bilm-tf's `bilm/data.py` reads: `LMDataset` of sentences that are turned round beforehand for the backward
    direction, and `_get_batch`, which fills the streams one after the other, each with the next sentence of the text
    when its own has only its end left, which is a target alone.
    """
    text = iter(sentences)
    first, last = ("</S>", "<S>") if backward else ("<S>", "</S>")
    current: list[list[str]] = [[] for _ in range(streams)]
    while True:
        batch = []
        for stream in range(streams):
            inputs: list[str] = []
            targets: list[str] = []
            while len(inputs) < window:
                if len(current[stream]) < 2:
                    sentence = next(text, None)
                    if sentence is None:
                        break
                    current[stream] = [first, *(reversed(sentence) if backward else sentence), last]
                inputs.append(current[stream].pop(0))
                targets.append(current[stream][0])
            batch.append((inputs, targets))
        if not any(inputs for inputs, _ in batch):
            return
        yield batch
