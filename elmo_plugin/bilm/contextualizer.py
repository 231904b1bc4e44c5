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
"""The names of the encoders that consist of sizes alone. A package with another such encoder adds its name."""


def build_contextualizer(config: Mapping[str, Any], width: int) -> Seq2SeqEncoder:
    """Build the encoder of a config's block `contextualizer`, which reads token vectors of this width (P).

    The block may come from a weight file, so it must not lead to another file, an address or code. At any depth, only
    the encoders of `CONTEXTUALIZERS` are built, because others may have a path or a URL among their keys. For a name
    with a dot AllenNLP would import a module, and for `_pretrained` it would load another archive.

    Raises `ConfigurationError` for an unknown name or key, and for an encoder that does not map P to 2P.
    """
    available, layers = Seq2SeqEncoder.list_available(), 0
    others = {*available} - CONTEXTUALIZERS
    for key, value in _items_in(config):
        if key == "_pretrained":
            raise ConfigurationError("'contextualizer': expected an encoder with its sizes, got '_pretrained'")
        if (isinstance(value, str) and "." in value) or (key == "type" and not isinstance(value, str)):
            raise ConfigurationError(f"'contextualizer.{key}': expected a registered name, got {value!r}")
        if isinstance(value, str) and value in others:
            raise ConfigurationError(
                f"'contextualizer.{key}': expected an encoder that consists of its sizes alone, got {value!r}; a "
                "package that registers such an encoder also adds its name to `elmo_plugin.bilm.CONTEXTUALIZERS`"
            )
        is_number = "layers" in key and isinstance(value, int)
        layers += max(value, 0) if is_number else isinstance(value, Mapping | list)
        if layers > MOST_LAYERS:
            raise ConfigurationError(f"'contextualizer': expected at most {MOST_LAYERS} layers and parts, got more")
    if config.get("type") not in available:
        choices = sorted(CONTEXTUALIZERS.intersection(available))
        raise ConfigurationError(
            f"'contextualizer.type': expected one of {', '.join(choices)}, got {config.get('type')!r}; if another "
            "package registers it, import that package first"
        )
    try:
        encoder = Seq2SeqEncoder.from_params(Params(deepcopy(dict(config))))
        sizes = encoder.get_input_dim(), encoder.get_output_dim()
    except (TypeError, ValueError, RuntimeError, AttributeError, KeyError, NotImplementedError) as error:
        raise ConfigurationError(f"'contextualizer': {error}") from error
    if sizes != (width, 2 * width):
        raise ConfigurationError(
            f"'contextualizer': expected input size {width} and output size {2 * width}, of both directions side by "
            f"side, got {sizes[0]} and {sizes[1]}"
        )
    return encoder


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


def _items_in(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value of a config at any depth, with its key. The values in a list have the list's key."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield str(name), inner
            yield from _items_in(inner, str(name))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield key, inner
            yield from _items_in(inner, key)
