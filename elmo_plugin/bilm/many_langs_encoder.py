"""The token encoder of ELMoForManyLangs, which reads a word's characters, the word itself, or both."""

from collections.abc import Sequence
from typing import Optional

import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor, nn

from elmo_plugin.bilm.character_encoder import CharCnn
from elmo_plugin.bilm.sizes import ManyLangsOptions
from elmo_plugin.bilm.token_encoder import CharacterLevelEncoder
from elmo_plugin.tensors import Linear
from elmo_plugin.text import (
    BEGIN_OF_WORD,
    BOUNDARY_WORDS,
    batch_to_code_points,
    character_ids,
    spellings,
    word_ids,
    word_to_code_points,
)


class ManyLangsEncoder(CharacterLevelEncoder):
    """Encodes a word by its own vocabularies of Unicode characters and words.

    It computes what `ConvTokenEmbedder` in `elmoformanylangs/modules/token_embedder.py` computes.

    # Parameters

    options : `ManyLangsOptions`
    output_dim : `int`
        The width of a word's vector (P). There is always a projection.
    """

    def __init__(self, options: ManyLangsOptions, output_dim: int) -> None:
        super().__init__()
        self.options = options
        self.word_vocabulary = {word: row for row, word in enumerate(options.words, start=1)}
        self.character_vocabulary = {character: row for row, character in enumerate(options.characters, start=1)}
        self.word_embedding: Optional[nn.Embedding] = None
        self.characters: Optional[CharCnn] = None
        if options.words:
            self.word_embedding = nn.Embedding(len(options.words) + 1, options.word_dim, padding_idx=0)
        if options.char_cnn is not None:
            padding = self.character_vocabulary["<pad>"]
            self.characters = CharCnn(options.char_cnn, len(options.characters) + 1, padding)
        self.projection = Linear(options.dim, output_dim)

    @property
    def weight(self) -> Tensor:
        """Return the bias of the projection."""
        return self.projection.bias

    def batch_to_ids(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """Return the code points of tokenized sentences, (B, T, C − 1)."""
        return batch_to_code_points(sentences, self.options.max_characters_per_token)

    def boundaries(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the code points of `<bos>` and `<eos>`, each (C − 1,), on the device of `ids`."""
        width = self.options.max_characters_per_token
        begin, end = (torch.tensor(word_to_code_points(word, width), device=ids.device) for word in BOUNDARY_WORDS)
        return begin, end

    def fit(self, ids: Tensor) -> Tensor:
        """Cut or pad code points to the width of this model, (B, T, C − 1), so words to C − 2 characters.

        Raises `ConfigurationError` for byte ids.
        """
        if ids.numel() and not bool(((ids[..., 0] == BEGIN_OF_WORD) | (ids[..., 0] == 0)).all()):
            raise ConfigurationError(
                "ELMo's token indexer: expected 'elmo_many_langs', because the biLM reads Unicode characters, got "
                "other ids, perhaps those of 'elmo_characters'"
            )
        return nn.functional.pad(ids, (0, self.options.max_characters_per_token - 1 - ids.size(-1)))

    def encode_some(self, words: Tensor) -> Tensor:
        """Encode code points (N, C − 1) as vectors (N, P)."""
        spelled, device = spellings(words), self.weight.device
        parts = []
        if self.word_embedding is not None:
            parts.append(self.word_embedding(word_ids(spelled, self.word_vocabulary).to(device)))  # (N, word dim)
        if self.characters is not None:
            ids = character_ids(spelled, self.character_vocabulary, self.options.max_characters_per_token)  # (N, C)
            parts.append(self.characters(ids.to(device)))  # (N, filters)
        return self.projection(torch.cat(parts, dim=-1))  # (N, P)
