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

from elmo_plugin.config_keys import probability
from elmo_plugin.elmo import Elmo

PLACES = ("input", "output")


class WholeInput(TextFieldEmbedder):
    """Everything that the layers of a task read of a token: `[x; ELMo]`, with an ELMo for each place that wants one.

    AllenNLP's interpreters scale this vector and ask for its gradient.

    # Parameters

    elmo : `Optional[Elmo]`
    text_field_embedder : `Optional[TextFieldEmbedder]`
    elmo_indexer : `str`
        As in `EnhancedText`, whose modules they stay: the names of their parameters are those of its archives.
    """

    def __init__(
        self, elmo: Optional[Elmo], text_field_embedder: Optional[TextFieldEmbedder], elmo_indexer: str
    ) -> None:
        super().__init__()
        self._embedders = (text_field_embedder, elmo)  # in a tuple they are no modules of this one
        self.elmo_indexer = elmo_indexer

    def get_output_dim(self) -> int:
        """Return the width of x and of ELMo, once for each of its mixes."""
        embedder, elmo = self._embedders
        x_dim = embedder.get_output_dim() if embedder else 0
        return x_dim + (len(elmo.mixes) * elmo.get_output_dim() if elmo else 0)

    def forward(self, tokens: TextFieldTensors) -> Tensor:  # type: ignore[override]
        """A text field's tensors to (B, T, output dim)."""
        embedder, elmo = self._embedders
        if elmo is not None and self.elmo_indexer not in tokens:  # before the embedder, whose error would not say so
            raise ConfigurationError(
                f"ELMo reads the token indexer '{self.elmo_indexer}' ('elmo_indexer'); found {sorted(tokens)}"
            )
        others = {key: tensors for key, tensors in tokens.items() if key != self.elmo_indexer}
        vectors = [embedder(others)] if embedder else []
        if elmo is not None:
            vectors += elmo(elmo.ids_of(tokens[self.elmo_indexer])).representations
        return torch.cat(vectors, dim=-1)


class EnhancedText(nn.Module):
    """Text to one vector a token, out of a task RNN and, where it is wanted, ELMo.

    # Parameters

    encoder : `Seq2SeqEncoder`
        The task RNN.
    elmo : `Optional[Elmo]`
        With one mix for each place; `None` is the baseline without ELMo.
    elmo_at : `Sequence[str]`
        Some of `input` and `output`, in this order.
    text_field_embedder : `Optional[TextFieldEmbedder]`
        Gives x from all indexers but ELMo's.
    dropout : `float`
        On what comes out of the RNN, before ELMo joins it.
    elmo_indexer : `str`
        Key of the indexer whose ids ELMo reads.

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
        # AllenNLP's interpreters take the first `TextFieldEmbedder` of a model.
        self.whole_input = WholeInput(elmo, text_field_embedder, elmo_indexer)
        self.encoder = encoder
        self.elmo = elmo
        self.elmo_at = tuple(elmo_at) if elmo else ()
        self.text_field_embedder = text_field_embedder
        self.dropout = nn.Dropout(dropout)
        self._check_input_size()

    @classmethod
    def from_lazy(
        cls,
        elmo: Optional[Lazy[Elmo]],
        elmo_at: Union[str, Sequence[str]],
        encoder: Seq2SeqEncoder,
        text_field_embedder: Optional[TextFieldEmbedder],
        dropout: float,
        elmo_indexer: str,
    ) -> "EnhancedText":
        """Build ELMo with as many mixes as `elmo_at` has places. Raises `ConfigurationError` for an unknown place."""
        named = [elmo_at] if isinstance(elmo_at, str) else elmo_at
        if not isinstance(named, (list, tuple)) or not named or any(place not in PLACES for place in named):
            raise ConfigurationError(f"'elmo_at' is {elmo_at!r}; wanted one or both of {list(PLACES)}")
        places = [place for place in PLACES if place in named]
        built = None if elmo is None else elmo.construct(num_output_representations=len(places))
        if built is not None and len(built.mixes) != len(places):
            raise ConfigurationError(
                f"'elmo_at': expected as many places as the pretrained ELMo has mixes, {len(built.mixes)}, got {places}"
            )
        if built is not None and not built.requires_grad:
            built.bilm.requires_grad_(False)  # `_pretrained` with `freeze: false` thaws what runs without gradients
        if built is not None and built.keep_sentence_boundaries:
            raise ConfigurationError(
                "'keep_sentence_boundaries' is true; wanted false: tokens alone have tags and labels"
            )
        return cls(encoder, built, places, text_field_embedder, dropout, elmo_indexer)

    def get_output_dim(self) -> int:
        """Width of h and, where ELMo is at the output, of ELMo behind it."""
        return self.encoder.get_output_dim() + self._elmo_dim("output")

    def forward(self, tokens: TextFieldTensors) -> tuple[Tensor, BoolTensor]:
        """A text field's tensors to vectors (B, T, output dim) and their mask (B, T)."""
        inputs = self.whole_input(tokens)  # (B, T, x and ELMo of each place)
        mask = get_text_field_mask(tokens)  # (B, T)
        read, elmo_out = inputs.split([self.encoder.get_input_dim(), self._elmo_dim("output")], dim=-1)
        hidden = self.encoder(read, mask)  # (B, T, h)
        return torch.cat([self.dropout(hidden), elmo_out], dim=-1), mask

    def _elmo_dim(self, place: str) -> int:
        return self.elmo.get_output_dim() if self.elmo and place in self.elmo_at else 0

    def _check_input_size(self) -> None:
        x_dim = self.text_field_embedder.get_output_dim() if self.text_field_embedder else 0
        wanted, found = x_dim + self._elmo_dim("input"), self.encoder.get_input_dim()
        if wanted == 0:
            raise ConfigurationError(
                "the encoder has nothing to read: found no 'text_field_embedder' and no 'input' in 'elmo_at'; "
                "wanted one of them"
            )
        if found != wanted:
            raise ConfigurationError(
                f"the encoder's 'input_size' is {found}; wanted {wanted}: "
                f"{x_dim} of the text field embedder and {self._elmo_dim('input')} of ELMo at the input"
            )
