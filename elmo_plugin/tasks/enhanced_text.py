"""A task RNN over text with ELMo at its input, its output or both: `[x; ELMo]` in, `[h; ELMo]` out (ELMo §3.3)."""

from collections.abc import Sequence
from typing import Optional

import torch
from allennlp.common import Lazy
from allennlp.common.checks import ConfigurationError
from allennlp.data import TextFieldTensors
from allennlp.modules import Seq2SeqEncoder, TextFieldEmbedder
from allennlp.nn.util import get_text_field_mask
from torch import BoolTensor, Tensor, nn

from elmo_plugin.mixes import Elmo

PLACES = ("input", "output")


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
        self.encoder = encoder
        self.elmo = elmo
        self.elmo_at = tuple(elmo_at) if elmo else ()
        self.text_field_embedder = text_field_embedder
        self.dropout = nn.Dropout(dropout)
        self.elmo_indexer = elmo_indexer
        self._check_input_size()

    @classmethod
    def from_lazy(
        cls,
        elmo: Optional[Lazy[Elmo]],
        elmo_at: Sequence[str],
        encoder: Seq2SeqEncoder,
        text_field_embedder: Optional[TextFieldEmbedder],
        dropout: float,
        elmo_indexer: str,
    ) -> "EnhancedText":
        """Build ELMo with as many mixes as `elmo_at` has places. Raises `ConfigurationError` for an unknown place."""
        places = [place for place in PLACES if place in elmo_at]
        unknown = [place for place in elmo_at if place not in PLACES]
        if unknown or not places:
            raise ConfigurationError(f"'elmo_at' is {list(elmo_at)}; wanted one or both of {list(PLACES)}")
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
        mask = get_text_field_mask(tokens)  # (B, T)
        others = {key: tensors for key, tensors in tokens.items() if key != self.elmo_indexer}
        x = [self.text_field_embedder(others)] if self.text_field_embedder else []
        elmo = dict(zip(self.elmo_at, self._elmo(tokens), strict=True))
        hidden = self.encoder(torch.cat([*x, *_at(elmo, "input")], dim=-1), mask)  # (B, T, h)
        return torch.cat([self.dropout(hidden), *_at(elmo, "output")], dim=-1), mask

    def _elmo(self, tokens: TextFieldTensors) -> list[Tensor]:
        if self.elmo is None:
            return []
        if self.elmo_indexer not in tokens:
            raise ConfigurationError(
                f"ELMo reads the token indexer '{self.elmo_indexer}' ('elmo_indexer'); found {sorted(tokens)}"
            )
        (ids,) = tokens[self.elmo_indexer].values()
        return self.elmo(ids).representations

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


def _at(elmo: dict[str, Tensor], place: str) -> list[Tensor]:
    return [elmo[place]] if place in elmo else []
