"""ELMo at both ends of any task RNN: the paper's "ELMo enhanced representation" (§3.3)."""

import warnings
from typing import Any, Optional, Union

import torch
from allennlp.common import Lazy
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from torch import Tensor, nn

from elmo_plugin.bilm import check_padding
from elmo_plugin.checkpoints import bilm_sizes
from elmo_plugin.common import at_least, probability
from elmo_plugin.elmo.mixes import LayerMix, ScalarMix, build_mix


@Seq2SeqEncoder.register("elmo_enhanced", constructor="from_config")
class ElmoEnhancedEncoder(Seq2SeqEncoder):
    """Wraps a task RNN: it takes `[layers; x]`, runs the RNN on `[x; ELMo_in]`, and returns `[h; ELMo_out]`.

    The model's text field embedder has the token embedder `elmo` (`"mix": "concatenate"`, `"dropout": 0`), alone or
    beside others, whose vectors are x. So a config alone can put ELMo at both ends of any model's task RNN.

        >>> from allennlp.modules.seq2seq_encoders import LstmSeq2SeqEncoder
        >>> encoder = ElmoEnhancedEncoder.from_config(LstmSeq2SeqEncoder(522, 20), bilm="english-tiny")
        >>> encoder.get_input_dim(), encoder.get_output_dim()  # 3 layers of 512 and x of 10; h and ELMo_out
        (1546, 532)

    Registered as a `Seq2SeqEncoder` with name `elmo_enhanced`.

    # Parameters

    encoder : `Seq2SeqEncoder`
        The task RNN. It reads x and, with an input mix, ELMo_in after it.
    num_elmo_layers, layer_dim : `int`
        L (including the token layer) and D of the biLM. A config may name the biLM instead; see `from_config`.
    input_mix, output_mix : `Optional[LayerMix]`
        A mix for each end; `None` omits that end.
    dropout : `float`
        The dropout rate of ELMo_in and of ELMo_out.
    layers_at : `str`
        The position of the layers in the input: `first` or `last`. AllenNLP's `basic` embedder concatenates in the
        sorted order of its keys, so `elmo` comes before `tokens`.
    """

    def __init__(
        self,
        encoder: Seq2SeqEncoder,
        num_elmo_layers: int,
        layer_dim: int,
        input_mix: Optional[LayerMix],
        output_mix: Optional[LayerMix],
        dropout: float = 0.5,
        layers_at: str = "first",
    ) -> None:
        super().__init__()
        at_least(1, num_elmo_layers=num_elmo_layers, layer_dim=layer_dim)
        probability(dropout=dropout)
        if layers_at not in ("first", "last"):
            raise ConfigurationError(f"'layers_at': expected 'first' or 'last', got {layers_at!r}")
        self.encoder = encoder
        self.input_mix = input_mix
        self.output_mix = output_mix
        self.dropout = nn.Dropout(dropout)
        self.num_elmo_layers = num_elmo_layers
        self.layer_dim = layer_dim
        self.layers_first = layers_at == "first"
        self._has_checked_layers = layer_dim % 2 > 0  # a biLM's layers have an even width: two directions side by side
        self.x_dim = encoder.get_input_dim() - (input_mix.get_output_dim() if input_mix else 0)
        if self.x_dim < 0:
            raise ConfigurationError(
                f"the encoder's 'input_size': expected {encoder.get_input_dim() - self.x_dim} for the input mix, plus "
                f"the width of x, got {encoder.get_input_dim()}"
            )

    @classmethod
    def from_config(
        cls,
        encoder: Seq2SeqEncoder,
        bilm: Optional[Union[str, dict[str, Any]]] = None,
        num_elmo_layers: Optional[int] = None,
        layer_dim: Optional[int] = None,
        input_mix: Optional[Lazy[LayerMix]] = Lazy(ScalarMix),  # noqa: B008
        output_mix: Optional[Lazy[LayerMix]] = Lazy(ScalarMix),  # noqa: B008
        dropout: float = 0.5,
        layers_at: str = "first",
        num_layers: Optional[int] = None,
        serialization_dir: Optional[str] = None,
    ) -> "ElmoEnhancedEncoder":
        """Build it from the keys of a config.

        # Parameters

        bilm : the biLM, as in `elmo`; the sizes are read from it.
        num_elmo_layers, layer_dim : L (including the token layer) and D, instead of `bilm`.
        input_mix, output_mix : `scalar` by default; null omits that end.
        num_layers : the old name of `num_elmo_layers`.
        serialization_dir : the folder of an unpacked archive, which holds the sizes of its biLM.

        The other keys are those of the class. Raises `ConfigurationError` for missing and contradictory keys.
        """
        if num_layers is not None:
            if num_elmo_layers is not None:
                raise ConfigurationError("'num_layers' is the old name of 'num_elmo_layers': expected one, got both")
            warnings.warn("'num_layers' of 'elmo_enhanced' is now 'num_elmo_layers'", DeprecationWarning, stacklevel=2)
            num_elmo_layers = num_layers
        given = {"num_elmo_layers": num_elmo_layers, "layer_dim": layer_dim}
        if bilm is not None:
            if any(size is not None for size in given.values()):
                raise ConfigurationError("'bilm': expected it without 'num_elmo_layers' and 'layer_dim', got both")
            sizes = bilm_sizes(bilm, serialization_dir)
            num_elmo_layers, layer_dim = sizes.num_layers, sizes.layer_dim
        if num_elmo_layers is None or layer_dim is None:
            raise ConfigurationError(
                f"'elmo_enhanced': expected 'bilm', or 'num_elmo_layers' and 'layer_dim', got {given}"
            )
        parts = serialization_dir, num_elmo_layers, layer_dim
        at_input = None if input_mix is None else build_mix("input_mix", input_mix, *parts)
        at_output = None if output_mix is None else build_mix("output_mix", output_mix, *parts)
        return cls(encoder, num_elmo_layers, layer_dim, at_input, at_output, dropout, layers_at)

    def get_input_dim(self) -> int:
        """Return the width of the input (L · D plus the width of x)."""
        return self.num_elmo_layers * self.layer_dim + self.x_dim

    def get_output_dim(self) -> int:
        """Return the width of h, plus the width of ELMo_out if there is an output mix."""
        return self.encoder.get_output_dim() + (self.output_mix.get_output_dim() if self.output_mix else 0)

    def is_bidirectional(self) -> bool:
        """Return whether the output is two directions side by side. With an output mix it is not."""
        return self.output_mix is None and self.encoder.is_bidirectional()

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """Encode inputs (B, T, L · D + x) with their mask (B, T), padded on the right: return (B, T, h + ELMo_out).

        Raises `ConfigurationError` for padding before a token, which task RNNs would read.
        """
        if not torch.compiler.is_compiling():
            check_padding(mask, "the mask of 'elmo_enhanced'")
        if inputs.size(-1) != self.get_input_dim():
            raise ConfigurationError(
                f"the input of 'elmo_enhanced': expected vectors of width {self.get_input_dim()} "
                f'({self.num_elmo_layers} layers of {self.layer_dim}, "mix": "concatenate", and x of {self.x_dim}), '
                f"got {inputs.size(-1)}"
            )
        sizes = [self.num_elmo_layers * self.layer_dim, self.x_dim]
        flat, x = inputs.split(sizes, dim=-1) if self.layers_first else inputs.split(sizes[::-1], dim=-1)[::-1]
        layers = flat.unflatten(-1, (self.num_elmo_layers, self.layer_dim)).permute(2, 0, 1, 3)  # (L, B, T, D)
        if not self._has_checked_layers:
            self._check_layers(layers)
        elmo_in = [self.dropout(self.input_mix(layers, mask))] if self.input_mix else []
        hidden = self.encoder(torch.cat([x, *elmo_in], dim=-1), mask)  # (B, T, h)
        elmo_out = [self.dropout(self.output_mix(layers, mask))] if self.output_mix else []
        return torch.cat([hidden, *elmo_out], dim=-1)

    def _check_layers(self, layers: Tensor) -> None:
        """Raise `ConfigurationError` unless layer 0 holds the token vector twice, as in every biLM."""
        one, other = layers[0].chunk(2, dim=-1)  # (B, T, P) each
        if not bool(((one == other) | (one == 0) | (other == 0)).all()):  # dropout leaves zeros
            raise ConfigurationError(
                f"'layers_at': expected the layers of a biLM {'before' if self.layers_first else 'after'} x, got other "
                "vectors; AllenNLP's embedder 'basic' concatenates in the sorted order of its keys"
            )
        self._has_checked_layers = bool(one.any())
