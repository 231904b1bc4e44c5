"""What turns token vectors into the layers of a biLM, if not its LSTMs: any other `Seq2SeqEncoder`."""

from collections.abc import Mapping
from typing import Any

from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from allennlp.modules.encoder_base import _EncoderBase
from torch import Tensor

from elmo_plugin.bilm.registered import build_registered
from elmo_plugin.common import installed


def build_contextualizer(config: Mapping[str, Any], width: int, is_trusted: bool) -> Seq2SeqEncoder:
    """Build the encoder of a block `contextualizer`, which reads token vectors of this width (P).

    See `build_registered`. Raises `ConfigurationError` also for an encoder that does not map P to 2P, or does not say
    whether it does.
    """
    encoder: Seq2SeqEncoder = build_registered(Seq2SeqEncoder, config, "contextualizer", is_trusted)
    try:
        sizes = (encoder.get_input_dim(), encoder.get_output_dim(), encoder.is_bidirectional())
    except (NotImplementedError, AttributeError) as error:
        raise ConfigurationError(
            f"'contextualizer': expected {type(encoder).__name__} to define get_input_dim, get_output_dim and "
            f"is_bidirectional; see {installed('docs/extend.md')}"
        ) from error
    if sizes[:2] != (width, 2 * width):
        raise ConfigurationError(
            f"'contextualizer': expected input size {width} and output size {2 * width}, of both directions side by "
            f"side, got {sizes[0]} and {sizes[1]}"
        )
    return encoder


def last_layer(encoder: Seq2SeqEncoder, tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the last layer (B, T, 2P), zero beyond a sentence's end, from tokens (B, T, P) and their mask (B, T)."""
    reset_states(encoder)
    outputs = encoder(tokens, mask)  # (B, T, 2P) of the last layer, or (layers, B, T, 2P)
    return (outputs if outputs.dim() == 3 else outputs[-1]) * mask.unsqueeze(-1)


def reset_states(encoder: Seq2SeqEncoder) -> None:
    """Clear the state of an encoder and of those inside it, so that no sentence depends on an earlier one."""
    for module in encoder.modules():
        if isinstance(module, _EncoderBase):
            module.reset_states()
