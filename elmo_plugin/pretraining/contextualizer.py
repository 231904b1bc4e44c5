"""Put another contextualizer into a biLM that is about to be trained."""

from dataclasses import replace
from typing import Any, Union

from allennlp.common import Lazy, Params
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder

from elmo_plugin.bilm import BiLM, ElmoLstm


def put_contextualizer(bilm: BiLM, contextualizer: Union[Lazy[Seq2SeqEncoder], Seq2SeqEncoder]) -> None:
    """Replace the LSTMs of a biLM. The block of the config, if there is one, becomes part of its options.

    Raises `ConfigurationError` for an encoder of another input size.
    """
    if isinstance(contextualizer, Lazy):
        try:
            encoder, config = contextualizer.construct(), _as_dict(contextualizer._params)
        except ConfigurationError as error:
            raise ConfigurationError(f"'contextualizer': {error}") from error
    else:
        encoder, config = contextualizer, None
    width, expected = encoder.get_input_dim(), bilm.options.lstm.projection_dim
    if width != expected:
        raise ConfigurationError(f"'contextualizer': expected input size {expected}, as of the biLM, got {width}")
    # The sizes of an `ElmoLstm` are those of the block `lstm`.
    bilm.options = replace(bilm.options, contextualizer=None if isinstance(encoder, ElmoLstm) else config)
    bilm.lstm = encoder


def _as_dict(params: Union[Params, str]) -> dict[str, Any]:
    return {"type": params} if isinstance(params, str) else params.as_dict(quiet=True)
