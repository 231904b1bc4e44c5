"""ELMo as word embeddings for flair. Import this module before flair loads a model that was saved with them."""

import json
from hashlib import blake2b
from typing import Any, Optional, final

import flair
import torch
from flair.data import Sentence
from flair.embeddings import TokenEmbeddings
from flair.embeddings.base import register_embeddings

from elmo_plugin.checkpoints import bilm_keys
from elmo_plugin.embedding import check_mix, load_by_keys
from elmo_plugin.integrations.shared import bilm_to_bytes, load_bytes, side_by_side


@final
@register_embeddings
class ElmoEmbeddings(TokenEmbeddings):
    """ELMo vectors of the tokens in flair's sentences, from a frozen biLM, for use alone or in `StackedEmbeddings`.

    The first parameters are those of flair's own `ELMoEmbeddings`, which needs AllenNLP 0.9. A saved flair model
    contains the biLM and needs no other file.

    # Parameters

    model : `str`
        A path, a URL or the name of a bundled biLM, in any format.
    options_file, weight_file : `Optional[str]`
        The two files of bilm-tf, instead of `model`.
    embedding_mode : `str`
        `all` for the layers side by side (L · D), the token layer first; `top` for the top layer; `average` for the
        mean of the layers.
    precision, initial_state
        As in `elmo_plugin.load`.
    saved_bilm : `Optional[bytes]`
        The biLM from a saved flair model, instead of the files.
    name : `Optional[str]`
        The name under which flair keeps the vectors, which also decides where they stand among other embeddings'. By
        default it says everything that they depend on.

    Raises `ConfigurationError` for values that `load` rejects.

    >>> sentence = Sentence("The ship sank .")
    >>> _ = ElmoEmbeddings("english-tiny").embed(sentence)
    >>> sentence[1].embedding.shape
    torch.Size([1536])
    """

    def __init__(
        self,
        model: str = "english-tiny",
        options_file: Optional[str] = None,
        weight_file: Optional[str] = None,
        embedding_mode: str = "all",
        precision: str = "float32",
        initial_state: Optional[str] = None,
        saved_bilm: Optional[bytes] = None,
        name: Optional[str] = None,
    ) -> None:
        check_mix(embedding_mode, key="embedding_mode")
        if saved_bilm is None:
            in_files = options_file is not None or weight_file is not None
            keys = bilm_keys(None if in_files else model, options_file, weight_file)
            embedder = load_by_keys(keys, embedding_mode, precision, -1, initial_state)
        else:
            embedder = load_bytes(saved_bilm, model, embedding_mode, precision, initial_state)
        # flair keeps the vectors of a token by name, so the name stands for everything that they depend on.
        digest = blake2b(json.dumps(embedder.identity()).encode(), digest_size=8).hexdigest()
        self.name = name or f"elmo-{embedding_mode}-{digest}"
        self.static_embeddings = True
        super().__init__()
        self._embedder = side_by_side(embedder)
        self._params: dict[str, Any] = {
            "model": embedder.elmo.bilm.source,
            "embedding_mode": embedding_mode,
            "precision": precision,
            "initial_state": initial_state,
        }

    @property
    def embedding_length(self) -> int:
        """Return the width of a token's vector."""
        return self._embedder.elmo.get_output_dim()

    def _add_embeddings_internal(self, sentences: list[Sentence]) -> None:
        """Set the vector of each token, on flair's device."""
        if self._embedder.device != flair.device:  # a move clears the word cache of an int8 biLM
            self._embedder.elmo.to(flair.device)
        for index, array in self._embedder.by_length([[token.text for token in sentence] for sentence in sentences]):
            vectors = torch.tensor(array, device=flair.device)  # (T, D)
            for token, vector in zip(sentences[index], vectors, strict=True):
                token.set_embedding(self.name, vector)

    def to_params(self) -> dict[str, Any]:
        """Return the arguments that build the same embeddings, for flair to save.

        `StackedEmbeddings` changes the name, and concatenates the vectors of a token in the order of the names.
        """
        return {**self._params, "name": self.name, "saved_bilm": bilm_to_bytes(self._embedder)}

    @classmethod
    def from_params(cls, params: dict[str, Any]) -> "ElmoEmbeddings":
        """Build the embeddings of a saved flair model."""
        return cls(**params)
