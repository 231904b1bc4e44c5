"""A task RNN over text with ELMo at its input, its output or both: `[x; ELMo]` in, `[h; ELMo]` out (ELMo §3.3)."""

from collections.abc import Sequence
from typing import Optional, Union

import torch
from allennlp.common import Lazy
from allennlp.common.checks import ConfigurationError
from allennlp.data import TextFieldTensors
from allennlp.modules import Seq2SeqEncoder, TextFieldEmbedder
from allennlp.nn.util import get_text_field_mask
from torch import BoolTensor, Tensor, nn

from elmo_plugin.common import probability
from elmo_plugin.elmo import Elmo

PLACES = ("input", "output")


class WholeInput(TextFieldEmbedder):
    """Embed all that the task layers read: `[x; ELMo]` for each token, with one ELMo vector for each place.

    AllenNLP's interpreters scale the output of the first `TextFieldEmbedder` of a model and compute its gradient.

    The parameters are as in `EnhancedText`. Both modules are its submodules, because archives store their parameters
    under its names.
    """

    def __init__(
        self, elmo: Optional[Elmo], text_field_embedder: Optional[TextFieldEmbedder], elmo_indexer: str
    ) -> None:
        super().__init__()
        self._embedders = (text_field_embedder, elmo)  # a tuple, so that they are not submodules
        self.elmo_indexer = elmo_indexer

    def forward(self, tokens: TextFieldTensors) -> Tensor:  # type: ignore[override]
        """Embed the tensors of a text field as (B, T, output dim)."""
        embedder, elmo = self._embedders
        if elmo is not None and self.elmo_indexer not in tokens:
            raise ConfigurationError(
                f"'elmo_indexer': expected a token indexer '{self.elmo_indexer}' in the reader, got {sorted(tokens)}; "
                f"add {self.elmo_indexer}: {{ type: 'elmo_characters' }} to its 'token_indexers'"
            )
        others = {key: tensors for key, tensors in tokens.items() if key != self.elmo_indexer}
        vectors = [embedder(others)] if embedder else []
        if elmo is not None:
            vectors += elmo(elmo.ids_of(tokens[self.elmo_indexer])).representations
        return torch.cat(vectors, dim=-1)


class EnhancedText(nn.Module):
    """Encode a text as one vector per token with a task RNN and, optionally, ELMo.

    # Parameters

    encoder : `Seq2SeqEncoder`
        The task RNN. Its `input_size` is the width of x plus, with ELMo at the input, the width of ELMo.
    elmo : `Optional[Elmo]`
        ELMo with one mix for each place, in a config the keys of `Elmo`; null for the baseline without ELMo.
    elmo_at : `Sequence[str]`
        `input`, `output`, or a list of one or both. Each has its own mix.
    text_field_embedder : `Optional[TextFieldEmbedder]`
        Embeds x from all token indexers except ELMo's.
    dropout : `float`
        Applied to the output of the RNN, before ELMo is concatenated.
    elmo_indexer : `str`
        The token indexer whose ids ELMo reads.

    Raises `ConfigurationError` for an encoder whose input size does not fit.
    """

    def __init__(
        self,
        encoder: Seq2SeqEncoder,
        elmo: Optional[Elmo],
        elmo_at: Sequence[str] = PLACES,
        text_field_embedder: Optional[TextFieldEmbedder] = None,
        dropout: float = 0.0,
        elmo_indexer: str = "elmo",
    ) -> None:
        super().__init__()
        probability(dropout=dropout)
        self.whole_input = WholeInput(elmo, text_field_embedder, elmo_indexer)  # first, so that interpreters find it
        self.encoder = encoder
        self.elmo = elmo
        self.elmo_at = tuple(elmo_at) if elmo else ()
        self.text_field_embedder = text_field_embedder
        self.dropout = nn.Dropout(dropout)
        x_dim, elmo_dim = text_field_embedder.get_output_dim() if text_field_embedder else 0, self._elmo_dim("input")
        if x_dim + elmo_dim == 0:
            raise ConfigurationError(
                "'elmo_at': expected 'input', or a 'text_field_embedder', got neither, so the encoder has no input"
            )
        if encoder.get_input_dim() != x_dim + elmo_dim:
            raise ConfigurationError(
                f"'encoder.input_size': expected {x_dim + elmo_dim} ({x_dim} of the text field embedder and {elmo_dim} "
                f"of ELMo at the input), got {encoder.get_input_dim()}"
            )

    @classmethod
    def from_config(
        cls,
        encoder: Seq2SeqEncoder,
        elmo: Optional[Lazy[Elmo]],
        elmo_at: Union[str, Sequence[str]] = PLACES,
        text_field_embedder: Optional[TextFieldEmbedder] = None,
        dropout: float = 0.0,
        elmo_indexer: str = "elmo",
    ) -> "EnhancedText":
        """Build ELMo with one mix for each place in `elmo_at`. Raises `ConfigurationError` for an unknown place."""
        named = [elmo_at] if isinstance(elmo_at, str) else elmo_at
        if not isinstance(named, (list, tuple)) or not named or any(place not in PLACES for place in named):
            raise ConfigurationError(f"'elmo_at': expected one or both of {list(PLACES)}, got {elmo_at!r}")
        places = [place for place in PLACES if place in named]
        if elmo is None:
            return cls(encoder, None, places, text_field_embedder, dropout, elmo_indexer)
        built = elmo.construct(num_output_representations=len(places))
        if len(built.mixes) != len(places):
            raise ConfigurationError(
                f"'elmo_at': expected one place for each of the {len(built.mixes)} mixes of the pretrained ELMo, "
                f"got {places}"
            )
        if built.keep_sentence_boundaries:
            raise ConfigurationError(
                "'keep_sentence_boundaries': expected false, because boundaries have no tags or labels, got true"
            )
        return cls(encoder, built, places, text_field_embedder, dropout, elmo_indexer)

    def get_output_dim(self) -> int:
        """Return the width of `[h; ELMo]`."""
        return self.encoder.get_output_dim() + self._elmo_dim("output")

    def forward(self, tokens: TextFieldTensors) -> tuple[Tensor, BoolTensor]:
        """Encode the tensors of a text field. Returns vectors (B, T, output dim) and their mask (B, T)."""
        inputs = self.whole_input(tokens)  # (B, T, x and the ELMo of each place)
        mask = get_text_field_mask(tokens)  # (B, T)
        x, elmo_out = inputs.split([self.encoder.get_input_dim(), self._elmo_dim("output")], dim=-1)
        hidden = self.encoder(x, mask)  # (B, T, h)
        return torch.cat([self.dropout(hidden), elmo_out], dim=-1), mask

    def _elmo_dim(self, place: str) -> int:
        return self.elmo.get_output_dim() if self.elmo and place in self.elmo_at else 0
