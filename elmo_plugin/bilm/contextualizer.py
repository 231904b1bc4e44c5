"""What turns token vectors into the layers of a biLM: its LSTMs, or any other `Seq2SeqEncoder`."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Protocol

from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from allennlp.modules.encoder_base import _EncoderBase
from torch import Tensor

from elmo_plugin.bilm.sizes import MOST_LAYERS
from elmo_plugin.bilm.token_encoder import TokenTable
from elmo_plugin.lstm import LstmState

CONTEXTUALIZERS = {
    *("alternating_lstm", "augmented_lstm", "compose", "elmo_lstm", "feedforward", "gated-cnn-encoder", "gru", "lstm"),
    *("pass_through", "pytorch_transformer", "rnn", "stacked_bidirectional_lstm"),
    "bidirectional_language_model_transformer",  # of allennlp-models
}
"""The names of the encoders whose strings lead to no file and no address, so that a weight file may hold such strings.

Other registered encoders are built from a file if they need numbers alone. A config may use any encoder.
"""


def build_contextualizer(config: Mapping[str, Any], width: int) -> Seq2SeqEncoder:
    """Build the encoder of a block `contextualizer`, which reads token vectors of this width (P).

    Raises `ConfigurationError` for an unknown name or key, and for an encoder that does not map P to 2P.
    """
    name, available = config.get("type"), Seq2SeqEncoder.list_available()
    if name not in available and not (isinstance(name, str) and "." in name):
        raise ConfigurationError(
            f"'contextualizer.type': expected one of {', '.join(available)}, got {name!r}; if another package "
            "registers it, import that package first"
        )
    try:
        encoder = Seq2SeqEncoder.from_params(Params(deepcopy(dict(config))))
        sizes = encoder.get_input_dim(), encoder.get_output_dim()
    except (ConfigurationError, TypeError, ValueError, RuntimeError, AttributeError, KeyError) as error:
        raise ConfigurationError(f"'contextualizer': {error}") from error
    if sizes != (width, 2 * width):
        raise ConfigurationError(
            f"'contextualizer': expected input size {width} and output size {2 * width}, of both directions side by "
            f"side, got {sizes[0]} and {sizes[1]}"
        )
    return encoder


def check_contextualizer_of_file(config: Mapping[str, Any]) -> None:
    """Raise `ConfigurationError` for a block `contextualizer` that a weight file must not have.

    A file may come from a stranger, so the block must not lead to another file, an address or code. For a name with a
    dot AllenNLP would import a module, and for `_pretrained` it would load another archive. A string may be a path or
    a URL, so only the encoders of `CONTEXTUALIZERS`, and what is inside them, may have strings besides names of types.
    """
    layers = 0
    for key, value, encoder in _values_in(config, str(config.get("type")), "type"):
        if key == "_pretrained":
            raise ConfigurationError("'contextualizer': expected an encoder with its sizes, got '_pretrained'")
        if (isinstance(value, str) and "." in value) or (key == "type" and not isinstance(value, str)):
            raise ConfigurationError(f"'contextualizer.{key}': expected a registered name, got {value!r}")
        if isinstance(value, str) and key != "type" and encoder not in CONTEXTUALIZERS:
            raise ConfigurationError(
                f"'contextualizer.{key}': expected numbers alone for {encoder!r} in a file, got {value!r}; the package "
                f"that registers {encoder!r} adds it to `elmo_plugin.bilm.CONTEXTUALIZERS` if no string leads it to a "
                "file or an address"
            )
        is_number = "layers" in key and isinstance(value, int)
        layers += max(value, 0) if is_number else isinstance(value, Mapping | list)
        if layers > MOST_LAYERS:
            raise ConfigurationError(f"'contextualizer': expected at most {MOST_LAYERS} layers and parts, got more")


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


def _values_in(value: Any, encoder: str, key: str) -> Iterator[tuple[str, Any, str]]:
    """Yield each value of a config at any depth, with its key and the name of the encoder that has it.

    The values in a list have the list's key. All that is inside an encoder beyond `CONTEXTUALIZERS` belongs to that.
    """
    inside = value.items() if isinstance(value, Mapping) else [(key, each) for each in value]
    if isinstance(value, Mapping) and encoder in CONTEXTUALIZERS:
        encoder = str(value.get("type", encoder))
    for name, each in inside:
        yield str(name), each, encoder
        if isinstance(each, Mapping | list | tuple):
            yield from _values_in(each, encoder, str(name))
