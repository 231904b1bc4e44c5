"""ELMo at both ends of a task RNN that knows nothing of it: the paper's "ELMo enhanced representation" (§3.3)."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, Optional, Union

import torch
from allennlp.common import Lazy
from allennlp.common.checks import ConfigurationError
from allennlp.models import Model
from allennlp.modules import Seq2SeqEncoder
from torch import Tensor, nn

from elmo_plugin.checkpoints import bilm_sizes
from elmo_plugin.config_keys import at_least, probability
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.elmo.layer_mix import ConcatenateMix, LayerMix, build_part
from elmo_plugin.elmo.scalar_mix import ScalarMix


class ElmoEnhancedEncoder(Seq2SeqEncoder):
    """Wraps a task RNN: `[layers; x]` comes in, the RNN reads `[x; ELMo_in]`, and `[h; ELMo_out]` goes out.

    Upstream of it stands a text field embedder with the token embedder `elmo` (`"mix": "concatenate"`, `"dropout": 0`),
    alone or beside others whose vectors are x. So ELMo reaches the output of any model's task RNN by config alone.

    Registered as a `Seq2SeqEncoder` with name `elmo_enhanced`.

    # Parameters

    encoder : `Seq2SeqEncoder`
        The task RNN; its input is x and, with an input mix, ELMo_in behind it.
    num_layers, layer_dim : `int`
        L and D of the biLM. A config names the biLM in their place; see `from_config`.
    input_mix, output_mix : `Optional[LayerMix]`
        A mix for each end; `None` leaves that end out.
    dropout : `float`
        On ELMo_in and on ELMo_out.
    layers_at : `str`
        Where the layers stand in the input: `first` or `last`. AllenNLP's `basic` embedder concatenates in the sorted
        order of its keys, so that `elmo` beside `tokens` comes first.
    """

    def __init__(
        self,
        encoder: Seq2SeqEncoder,
        num_layers: int,
        layer_dim: int,
        input_mix: Optional[LayerMix],
        output_mix: Optional[LayerMix],
        dropout: float = 0.5,
        layers_at: str = "first",
    ) -> None:
        super().__init__()
        at_least(1, num_elmo_layers=num_layers, layer_dim=layer_dim)
        probability(dropout=dropout)
        if layers_at not in ("first", "last"):
            raise ConfigurationError(f"'layers_at' is {layers_at!r}; wanted 'first' or 'last'")
        self.encoder = encoder
        self.input_mix = input_mix
        self.output_mix = output_mix
        self.dropout = nn.Dropout(dropout)
        self.num_layers = num_layers
        self.layer_dim = layer_dim
        self.layers_first = layers_at == "first"
        self._has_seen_layers = layer_dim % 2 > 0  # no biLM's
        self.x_dim = encoder.get_input_dim() - (input_mix.get_output_dim() if input_mix else 0)
        if self.x_dim < 0:
            raise ConfigurationError(
                f"the encoder's 'input_size' is {encoder.get_input_dim()}; wanted "
                f"{encoder.get_input_dim() - self.x_dim} of the input mix, and the width of x on top"
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

        bilm : what the embedder `elmo` has under the same key: the sizes are read from it.
        num_elmo_layers, layer_dim : L, the token layer included, and D, in place of `bilm`.
        input_mix, output_mix : `scalar` if left out, none if null.
        num_layers : the old name of `num_elmo_layers`.
        serialization_dir : where AllenNLP has unpacked an archive, which holds the sizes of its biLM.

        The others are those of the class. Raises `ConfigurationError` for missing and contradictory keys.
        """
        if num_layers is not None:
            if num_elmo_layers is not None:
                raise ConfigurationError("'num_layers' is the old name of 'num_elmo_layers': expected one, got both")
            warnings.warn("'num_layers' of 'elmo_enhanced' is now 'num_elmo_layers'", DeprecationWarning, stacklevel=2)
            num_elmo_layers = num_layers
        given = {"num_elmo_layers": num_elmo_layers, "layer_dim": layer_dim}
        if bilm is not None:
            if any(size is not None for size in given.values()):
                raise ConfigurationError("'bilm' stands in place of 'num_elmo_layers' and 'layer_dim': got both")
            sizes = bilm_sizes(bilm, serialization_dir)
            num_elmo_layers, layer_dim = sizes.num_layers, sizes.layer_dim
        if num_elmo_layers is None or layer_dim is None:
            raise ConfigurationError(
                f"'elmo_enhanced': expected 'bilm', or 'num_elmo_layers' and 'layer_dim', got {given}"
            )
        at_least(1, num_elmo_layers=num_elmo_layers, layer_dim=layer_dim)
        parts = {"num_layers": num_elmo_layers, "layer_dim": layer_dim}
        at_input = None if input_mix is None else build_part("input_mix", input_mix, **parts)
        at_output = None if output_mix is None else build_part("output_mix", output_mix, **parts)
        return cls(encoder, num_elmo_layers, layer_dim, at_input, at_output, dropout, layers_at)

    def get_input_dim(self) -> int:
        """L · D + the width of x."""
        return self.num_layers * self.layer_dim + self.x_dim

    def get_output_dim(self) -> int:
        """Width of h and, with an output mix, of ELMo_out behind it."""
        return self.encoder.get_output_dim() + (self.output_mix.get_output_dim() if self.output_mix else 0)

    def is_bidirectional(self) -> bool:
        """The encoder's own answer, as long as its halves are all of the output."""
        return self.output_mix is None and self.encoder.is_bidirectional()

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """(B, T, L·D + x) with its mask (B, T) to (B, T, h + D)."""
        if inputs.size(-1) != self.get_input_dim():
            raise ConfigurationError(
                f"'elmo_enhanced' was given vectors of {inputs.size(-1)}; wanted {self.get_input_dim()}: "
                f'{self.num_layers} layers of {self.layer_dim} ("mix": "concatenate") and x of {self.x_dim}'
            )
        layers, x = self._split(inputs)
        self._check_layers(layers)
        elmo_in = [self.dropout(self.input_mix(layers, mask))] if self.input_mix else []
        hidden = self.encoder(torch.cat([x, *elmo_in], dim=-1), mask)  # (B, T, h)
        elmo_out = [self.dropout(self.output_mix(layers, mask))] if self.output_mix else []
        return torch.cat([hidden, *elmo_out], dim=-1)

    def _check_layers(self, layers: Tensor) -> None:
        """Raise `ConfigurationError` where layers (L, B, T, D) are no biLM's: of its first both halves are the same."""
        if self._has_seen_layers:
            return
        one, other = layers[0].chunk(2, dim=-1)  # (B, T, P) each
        if not bool(((one == other) | (one == 0) | (other == 0)).all()):  # 0 is what dropout leaves
            raise ConfigurationError(
                f"'elmo_enhanced' found no layers of a biLM {'before' if self.layers_first else 'behind'} x; wanted "
                "them where 'layers_at' says. AllenNLP's embedder 'basic' concatenates in the order of its sorted keys"
            )
        self._has_seen_layers = bool(one.any())

    def _split(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """`[layers; x]` into (L, B, T, D) and (B, T, x)."""
        width = self.num_layers * self.layer_dim
        if self.layers_first:
            flat, x = inputs.split([width, self.x_dim], dim=-1)
        else:
            x, flat = inputs.split([self.x_dim, width], dim=-1)
        return flat.unflatten(-1, (self.num_layers, self.layer_dim)).permute(2, 0, 1, 3), x


def check_layers(model: nn.Module) -> None:
    """Raise `ConfigurationError` if an `elmo_enhanced` of a model splits other layers than its `elmo` hands on.

    The width alone does not tell: what is not taken for layers is taken for x.
    """
    elmos = [module for module in model.modules() if isinstance(module, Elmo) and not module.projections]
    mixes = [mix for elmo in elmos for mix in elmo.mixes if isinstance(mix, ConcatenateMix)]
    handed_on = {(mix.num_layers, mix.layer_dim) for mix in mixes}
    for encoder in model.modules():
        if isinstance(encoder, ElmoEnhancedEncoder) and handed_on:
            sizes = (encoder.num_layers, encoder.layer_dim)
            if sizes not in handed_on:
                got = " or ".join(f"{layers} and {width}" for layers, width in sorted(handed_on))
                raise ConfigurationError(
                    f"'num_elmo_layers' and 'layer_dim' of 'elmo_enhanced': expected {got}, as 'elmo' hands on its "
                    f"layers, got {sizes[0]} and {sizes[1]}; the key 'bilm', the same as that of 'elmo', gives both"
                )


def _checked(from_params: Callable[..., Model]) -> Callable[..., Model]:
    """AllenNLP's way from a config to a model, with `check_layers` at its end."""

    @functools.wraps(from_params)
    def checked(cls: type[Model], *args: Any, **kwargs: Any) -> Model:
        model = from_params(cls, *args, **kwargs)
        check_layers(model)
        return model

    return checked


# Neither an encoder nor an embedder knows the model that it is a part of, and AllenNLP tells nobody that one is built.
Model.from_params = classmethod(_checked(Model.from_params.__func__))  # type: ignore[assignment, attr-defined]
Seq2SeqEncoder.register("elmo_enhanced", constructor="from_config")(ElmoEnhancedEncoder)
