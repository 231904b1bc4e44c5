"""Write a tool's vectors of the sentences of a task to a file; a token embedder reads them.

All tools give vectors to the same taggers and classifiers in this way, each through its own library.
"""

import json
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from allennlp.common import Params
from allennlp.data import DatasetReader
from allennlp.modules import ScalarMix, TokenEmbedder
from more_itertools import chunked
from torch import Tensor

from elmo_plugin.common import atomic_file
from elmo_plugin.text import batch_to_ids
from experiments.run import TASKS, read_task

Embed = Callable[[list[list[str]]], list[np.ndarray]]
"""A function that returns the layers (L, T, D) of each sentence; tools without layers have L = 1."""
SENTENCES_AT_A_TIME = 32
SAMPLE = 200


def key(ids: Tensor) -> str:
    """Return the key of a sentence: a digest of the character ids of its words (T, C), without padding."""
    return sha256(ids[ids.any(dim=1)].numpy().tobytes()).hexdigest()


@TokenEmbedder.register("vectors_of_file")
class VectorsOfFile(TokenEmbedder):
    """Embeds words by frozen vectors of a file, with a learned mix of their layers and dropout.

    A layer is divided by the root mean square of its numbers in a sample of the sentences. With the same few steps of
    training for all, a tool would otherwise be judged by the scale of its vectors, too.
    """

    def __init__(self, file: str, dropout: float = 0.3) -> None:
        super().__init__()
        self.file = h5py.File(file, "r")
        sample = [sentence[:] for sentence in islice(self.file.values(), SAMPLE)]  # the digests are in random order
        square = np.concatenate(sample, axis=1).astype(np.float32) ** 2  # (L, words, D)
        self.scale = torch.from_numpy(square.mean(axis=(1, 2), keepdims=True) ** -0.5)  # (L, 1, 1)
        num_layers, _, self.dim = square.shape
        self.mix = ScalarMix(num_layers)
        self.dropout = torch.nn.Dropout(dropout)

    def get_output_dim(self) -> int:
        """Return the width of the vectors."""
        return int(self.dim)

    def forward(self, elmo_tokens: Tensor) -> Tensor:
        """Return the vectors (B, T, D) of words (B, T, C)."""
        batch, words, _ = elmo_tokens.shape
        layers = torch.zeros(self.mix.mixture_size, batch, words, self.dim)  # (L, B, T, D)
        for row, ids in enumerate(elmo_tokens):
            vectors = torch.from_numpy(self.file[key(ids)][:])  # (L, T', D)
            layers[:, row, : vectors.size(1)] = vectors.float() * self.scale
        mixed: Tensor = self.dropout(self.mix(list(layers)))
        return mixed


def sentences(task: str) -> Iterator[list[str]]:
    """Yield the sentences of a task: those that runs train on, and those of the development set."""
    params, facts = Params.from_file(TASKS[task]), read_task(TASKS[task])
    for path, number in (("train_data_path", facts.train), ("validation_data_path", facts.dev)):
        reader = DatasetReader.from_params(params["dataset_reader"].duplicate(), max_instances=number)
        for instance in reader.read(params[path]):
            yield [token.text for token in instance["tokens"].tokens]


def write_vectors(embed: Embed, task: str, folder: Path) -> dict[str, Any]:
    """Write TASK.h5 and then TASK.json, which is returned: how many sentences, and the time of embedding them."""
    folder.mkdir(parents=True, exist_ok=True)
    number, seconds = 0, 0.0
    with atomic_file(folder / f"{task}.h5") as partial, h5py.File(partial, "w", locking=False) as file:
        for some in chunked(sentences(task), SENTENCES_AT_A_TIME):
            start = time.process_time()
            layers = embed(some)
            seconds += time.process_time() - start
            number += len(some)
            for ids, vectors in zip(batch_to_ids(some), layers, strict=True):
                if key(ids) not in file:
                    file[key(ids)] = vectors.astype(np.float16)
    result = {"sentences": number, "cpu_seconds": seconds, "dim": int(vectors.shape[-1])}
    (folder / f"{task}.json").write_text(json.dumps(result), encoding="utf-8")
    return result
