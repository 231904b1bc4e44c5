"""What turns token vectors into the layers of a biLM: its LSTMs, or any other `Seq2SeqEncoder`."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from allennlp.modules.encoder_base import _EncoderBase
from torch import Tensor

from elmo_plugin.bilm.registered import build_registered
from elmo_plugin.bilm.token_encoder import TokenTable
from elmo_plugin.common import installed
from elmo_plugin.lstm import LstmState


def build_contextualizer(config: Mapping[str, Any], width: int, is_trusted: bool) -> Seq2SeqEncoder:
    """Build the encoder of a block `contextualizer`, which reads token vectors of this width (P).

    See `build_registered`. Raises `ConfigurationError` also for an encoder that does not map P to 2P.
    """
    encoder: Seq2SeqEncoder = build_registered(Seq2SeqEncoder, config, "contextualizer", is_trusted)
    sizes = sizes_of(encoder)
    if sizes[:2] != (width, 2 * width):
        raise ConfigurationError(
            f"'contextualizer': expected input size {width} and output size {2 * width}, of both directions side by "
            f"side, got {sizes.input} and {sizes.output}"
        )
    return encoder


class Sizes(NamedTuple):
    """The widths of an encoder's input and output, and whether the output is two directions side by side."""

    input: int
    output: int
    has_two_directions: bool


def sizes_of(encoder: Seq2SeqEncoder) -> Sizes:
    """Return what an encoder says of itself. Raises `ConfigurationError` for one that does not define a method."""
    try:
        return Sizes(encoder.get_input_dim(), encoder.get_output_dim(), encoder.is_bidirectional())
    except (NotImplementedError, AttributeError) as error:
        raise ConfigurationError(
            f"'contextualizer': expected {type(encoder).__name__} to define get_input_dim, get_output_dim and "
            f"is_bidirectional; see {installed('docs/extend.md')}"
        ) from error


class Contextualizer(Protocol):
    """Reads sentences in two independent directions, as `ElmoLstm` does."""

    has_state: bool
    """Whether a sentence may start from another state than zero."""

    def __call__(self, words: TokenTable, mask: Tensor, state: LstmState) -> tuple[list[Tensor], LstmState]:
        """Return the layers (B, T, 2P), zero beyond a sentence's end, and the state after each sentence."""

    def zero_state(self, batch_size: int, like: Tensor) -> LstmState:
        """Return an all-zero state for a batch of `batch_size` sentences, on the device and in the type of `like`."""


class StatelessContextualizer:
    """Any `Seq2SeqEncoder` as a contextualizer. Only its last layer is used, and its state has no layers."""

    has_state = False

    def __init__(self, encoder: Seq2SeqEncoder) -> None:
        self.encoder = encoder

    def __call__(self, words: TokenTable, mask: Tensor, state: LstmState) -> tuple[list[Tensor], LstmState]:
        """Return the last layer (B, T, 2P), and the state as it is."""
        reset_states(self.encoder)
        mask = mask.to(words.vectors.device)
        present = mask.unsqueeze(-1)  # (B, T, 1)
        outputs = self.encoder(words.dense() * present, mask)  # (B, T, 2P) of the last layer, or (layers, B, T, 2P)
        last = outputs if outputs.dim() == 3 else outputs[-1]
        return [last * present], state

    def zero_state(self, batch_size: int, like: Tensor) -> LstmState:
        """Return a state without layers."""
        empty = like.new_zeros(0, 2, batch_size, self.encoder.get_output_dim() // 2)
        return LstmState(empty, empty)


def reset_states(encoder: Seq2SeqEncoder) -> None:
    """Clear the state of an encoder and of those inside it, so that no sentence depends on an earlier one."""
    for module in encoder.modules():
        if isinstance(module, _EncoderBase):
            module.reset_states()
