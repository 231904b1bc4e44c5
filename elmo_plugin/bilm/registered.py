"""Build the registered parts that a biLM names, in the options of a config or of a weight file.

One of them is the contextualizer: any `Seq2SeqEncoder` instead of the LSTMs.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from allennlp.modules.encoder_base import _EncoderBase
from torch import Tensor

from elmo_plugin.bilm.sizes import MOST_LAYERS
from elmo_plugin.common import installed, named_errors

CONTEXTUALIZERS = {
    *("alternating_lstm", "augmented_lstm", "compose", "elmo_lstm", "feedforward", "gated-cnn-encoder", "gru", "lstm"),
    *("pass_through", "pytorch_transformer", "rnn", "stacked_bidirectional_lstm"),
    "bidirectional_language_model_transformer",  # of allennlp-models
}
"""The names of the encoders that no string leads to a file or an address, so that a weight file may hold their strings.

Other registered parts are built from a file if they need numbers alone. A config may name any of them.
"""


def build_registered(kind: Any, config: Mapping[str, Any], key: str, is_trusted: bool, **extras: Any) -> Any:
    """Build the part of this kind that the block `key` describes, among the options of a biLM or beside them.

    Unless the options are trusted, they may come from a stranger's file, and `check_of_file` limits them. Raises
    `ConfigurationError` for an unknown name or key.
    """
    name, available = config.get("type"), kind.list_available()
    if name not in available and not (isinstance(name, str) and "." in name):
        raise ConfigurationError(
            f"'{key}.type': expected one of {', '.join(available) or 'none'}, got {name!r}; if another package "
            "registers it, import that package first"
        )
    if not is_trusted:
        check_of_file(config, key)
    with named_errors(f"'{key}'", ConfigurationError, TypeError, ValueError, RuntimeError, AttributeError, KeyError):
        return kind.from_params(Params(deepcopy(dict(config))), **extras)


def check_of_file(config: Mapping[str, Any], block: str) -> None:
    """Raise `ConfigurationError` for the description of a part that a weight file must not have.

    It must not lead to another file, an address or code. For a name with a dot AllenNLP would import a module, and for
    `_pretrained` it would load another archive. A string may be a path or a URL, so only the encoders of
    `CONTEXTUALIZERS`, and what is inside them, may have strings besides names of types.
    """
    layers = 0
    for key, value, part in _values_in(config, str(config.get("type")), "type"):
        if key == "_pretrained":
            raise ConfigurationError(f"'{block}': expected a part with its sizes, got '_pretrained'")
        if (isinstance(value, str) and "." in value) or (key == "type" and not isinstance(value, str)):
            raise ConfigurationError(f"'{block}.{key}': expected a registered name, got {value!r}")
        if isinstance(value, str) and key != "type" and part not in CONTEXTUALIZERS:
            raise ConfigurationError(
                f"'{block}.{key}': expected numbers alone for {part!r} in a file, got {value!r}; the package that "
                f"registers {part!r} adds it to `elmo_plugin.bilm.CONTEXTUALIZERS` if no string leads it to a file or "
                "an address"
            )
        is_number = "layers" in key and isinstance(value, int)
        layers += max(value, 0) if is_number else isinstance(value, Mapping | list)
        if layers > MOST_LAYERS:
            raise ConfigurationError(f"'{block}': expected at most {MOST_LAYERS} layers and parts, got more")


def _values_in(value: Any, part: str, key: str) -> Iterator[tuple[str, Any, str]]:
    """Yield each value of a config at any depth, with its key and the name of the part that has it.

    The values in a list have the list's key. All that is inside a part beyond `CONTEXTUALIZERS` belongs to that.
    """
    inside = value.items() if isinstance(value, Mapping) else [(key, each) for each in value]
    if isinstance(value, Mapping) and part in CONTEXTUALIZERS:
        part = str(value.get("type", part))
    for name, each in inside:
        yield str(name), each, part
        if isinstance(each, Mapping | list | tuple):
            yield from _values_in(each, part, str(name))


def build_contextualizer(config: Mapping[str, Any], width: int, is_trusted: bool) -> Seq2SeqEncoder:
    """Build the encoder of a block `contextualizer`, which reads token vectors of this width (P).

    See `build_registered`. Raises `ConfigurationError` also for an encoder that does not map P to 2P.
    """
    encoder: Seq2SeqEncoder = build_registered(Seq2SeqEncoder, config, "contextualizer", is_trusted)
    input_dim, output_dim, _ = sizes_of(encoder)
    if (input_dim, output_dim) != (width, 2 * width):
        raise ConfigurationError(
            f"'contextualizer': expected input size {width} and output size {2 * width}, of both directions side by "
            f"side, got {input_dim} and {output_dim}"
        )
    return encoder


def sizes_of(encoder: Seq2SeqEncoder) -> tuple[int, int, bool]:
    """Return the widths of an encoder's input and output, and whether the output is two directions side by side.

    Raises `ConfigurationError` for an encoder that does not define a method that says so.
    """
    try:
        return encoder.get_input_dim(), encoder.get_output_dim(), encoder.is_bidirectional()
    except (NotImplementedError, AttributeError) as error:
        raise ConfigurationError(
            f"'contextualizer': expected {type(encoder).__name__} to define get_input_dim, get_output_dim and "
            f"is_bidirectional; see {installed('docs/extend.md')}"
        ) from error


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
