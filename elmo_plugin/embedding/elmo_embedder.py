"""The class of `allennlp.commands.elmo`, which AllenNLP 1.0 removed, for code and tutorials that use it."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Optional

import numpy as np
from more_itertools import chunked
from torch import Tensor

from elmo_plugin.checkpoints import PUBLISHED_OPTIONS, PUBLISHED_WEIGHTS
from elmo_plugin.common import at_least
from elmo_plugin.embedding.corpus import Corpus
from elmo_plugin.embedding.corpus_embedder import CorpusEmbedder
from elmo_plugin.embedding.embedder import load
from elmo_plugin.embedding.vector_files import Hdf5File
from elmo_plugin.text import AsciiSpacesTokenizer, FilePath, token_lists

BATCH_SIZE = 64


class ElmoEmbedder:
    """Works like `allennlp.commands.elmo.ElmoEmbedder` of AllenNLP 0.9: tokens to all layers, the token layer first.

    A sentence has the same vectors each time; in the original they depended on the sentences embedded before. An empty
    line of a file is a sentence without tokens; the original's `embed_file` raised an error for it.

    # Parameters

    options_file, weight_file : `str`
        Paths or URLs of a bilm-tf pair; by default those of the published model, which are downloaded (374 MB).
    cuda_device : `int`
        The number of a GPU, −1 for the processor.
    initial_state : `Optional[str]`
        As in `load`; the original had no such argument.

    ```python
    elmo = ElmoEmbedder("options.json", "weights.hdf5")
    layers = elmo.embed_sentence(["Two", "words"])  # (L, 2, D)
    ```
    """

    def __init__(
        self,
        options_file: str = PUBLISHED_OPTIONS,
        weight_file: str = PUBLISHED_WEIGHTS,
        cuda_device: int = -1,
        initial_state: Optional[str] = None,
    ) -> None:
        self._embedder = load(
            weight_file, cuda_device=cuda_device, initial_state=initial_state, options_file=options_file
        )

    def batch_to_embeddings(self, batch: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Return the layers (B, L, T, D) and the mask (B, T) of sentences, on the biLM's device.

        The layers are zero after the end of a sentence. The mask holds ones and zeros.
        """
        layers, mask = self._embedder.padded(token_lists(batch))
        return layers, mask.long()

    def embed_sentence(self, sentence: Sequence[str]) -> np.ndarray:
        """Return the layers (L, T, D) of a sentence."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Return the layers (L, T, D) of each sentence; T is 0 for an empty one."""
        return self._embedder.embed(batch)

    def embed_sentences(self, sentences: Iterable[Sequence[str]], batch_size: int = BATCH_SIZE) -> Iterator[np.ndarray]:
        """Yield the layers (L, T, D) of each sentence. It reads and embeds `batch_size` sentences at a time."""
        at_least(1, batch_size=batch_size)
        for batch in chunked(sentences, batch_size):
            yield from self.embed_batch(batch)

    def embed_file(
        self,
        input_file: IO[str],
        output_file_path: FilePath,
        output_format: str = "all",
        batch_size: int = BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Embed a text and write hdf5, as `elmo-plugin embed-corpus` does: one sentence per line of tokens and spaces.

        # Parameters

        input_file : an open text file, which is closed at the end
        output_file_path : an existing file is replaced when the new one is complete
        output_format : `all` layers, the `top` one, or their `average`
        batch_size : the largest number of sentences in a batch
        forget_sentences : leave `sentence_to_index` out
        use_sentence_keys : use sentences as keys, see `Hdf5File`; a repeated sentence is stored once
        """
        at_least(1, batch_size=batch_size)
        work = CorpusEmbedder(self._embedder.with_mix(output_format), batch_size=batch_size)
        file = Hdf5File(use_sentence_keys=use_sentence_keys, forget_sentences=forget_sentences)
        work.embed(Corpus(input_file, AsciiSpacesTokenizer()), Path(output_file_path), file, replace=True)
        input_file.close()
