"""The names of `allennlp.commands.elmo`, which AllenNLP 1.0 took away, for code and tutorials written for them."""

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import IO, Optional, Union

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data.tokenizers import WhitespaceTokenizer
from more_itertools import chunked
from torch import Tensor

from elmo_plugin.checkpoints import PUBLISHED_OPTIONS, PUBLISHED_WEIGHTS
from elmo_plugin.embedding.corpus import Corpus
from elmo_plugin.embedding.corpus_embedder import CorpusEmbedder
from elmo_plugin.embedding.embedder import MIXES, load_by_keys, token_lists
from elmo_plugin.embedding.hdf5 import Hdf5File

BATCH_SIZE = 64


class ElmoEmbedder:
    """`allennlp.commands.elmo.ElmoEmbedder` of AllenNLP 0.9: tokens to all layers, the token layer first.

    A sentence has the same vectors each time; the original's depended on what it had embedded before. And an empty
    line of a file is a sentence without tokens, for which the original's `embed_file` raised an error.

    # Parameters

    options_file, weight_file : `str`
        Paths or URLs of a bilm-tf pair; by default those of the published model, which are fetched (374 MB).
    cuda_device : `int`
        The number of a GPU, −1 for the processor.
    initial_state : `Optional[str]`
        As of `load`; the original had none.
    """

    def __init__(
        self,
        options_file: str = PUBLISHED_OPTIONS,
        weight_file: str = PUBLISHED_WEIGHTS,
        cuda_device: int = -1,
        initial_state: Optional[str] = None,
    ) -> None:
        keys = {"options_file": options_file, "weight_file": weight_file}
        self._embedder = load_by_keys(keys, "all", "float32", cuda_device, initial_state)

    def batch_to_embeddings(self, batch: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Sentences to tensors on the biLM's device, zeros behind the end of a sentence.

        *Shape:* (B, L, T, D), and their mask (B, T) of ones and zeros.
        """
        sentences = token_lists(batch)
        num_layers, _, layer_dim = self._embedder.shape
        if not any(sentences):
            nothing = torch.zeros(len(sentences), num_layers, 0, layer_dim, device=self._embedder.device)
            return nothing, nothing[:, 0, :, 0].long()
        vectors, mask = self._embedder.padded(sentences)  # (B, T, L · D), (B, T)
        return vectors.unflatten(2, (num_layers, layer_dim)).transpose(1, 2), mask.long()

    def embed_sentence(self, sentence: Sequence[str]) -> np.ndarray:
        """The tokens of a sentence to (L, T, D)."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Sentences to (L, T, D) each; T is 0 for an empty one."""
        return self._embedder.embed(batch)

    def embed_sentences(self, sentences: Iterable[Sequence[str]], batch_size: int = BATCH_SIZE) -> Iterator[np.ndarray]:
        """Sentences to (L, T, D) each, `batch_size` of them read and embedded at a time."""
        _check(batch_size)
        for batch in chunked(sentences, batch_size):
            yield from self.embed_batch(batch)

    def embed_file(
        self,
        input_file: IO[str],
        output_file_path: Union[str, "PathLike[str]"],
        output_format: str = "all",
        batch_size: int = BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Embed a text, a sentence a line and tokens by white space, as `allennlp embed-corpus` does, into hdf5.

        # Parameters

        input_file : a text that is open; it is closed at the end
        output_file_path : what is there is replaced when the new file is whole
        output_format : `all` layers, the `top` one, or their `average`
        batch_size : sentences in a batch at most
        forget_sentences : leave `sentence_to_index` out
        use_sentence_keys : have sentences as keys, see `Hdf5File`; a repeated one is there once
        """
        if output_format not in MIXES:
            raise ConfigurationError(f"'output_format': expected one of {', '.join(MIXES)}, got {output_format!r}")
        if isinstance(input_file, str | PathLike):
            raise ConfigurationError(f"'input_file': expected an open file, as of open(…), got {str(input_file)!r}")
        _check(batch_size)
        work = CorpusEmbedder(self._embedder.with_mix(output_format), batch_size=batch_size)
        file = Hdf5File(use_sentence_keys=use_sentence_keys, forget_sentences=forget_sentences)
        work.embed(Corpus(input_file, WhitespaceTokenizer()), Path(output_file_path), file, replace=True)
        input_file.close()


def _check(batch_size: int) -> None:
    if batch_size < 1:
        raise ConfigurationError(f"'batch_size': expected 1 or more sentences, got {batch_size}")
