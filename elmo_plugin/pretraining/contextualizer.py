"""Put another contextualizer into a biLM that is about to be trained."""

from dataclasses import replace
from typing import Union

from allennlp.common import Lazy
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder

from elmo_plugin.bilm import BiLM, ElmoLstm


def put_contextualizer(bilm: BiLM, contextualizer: Union[Lazy[Seq2SeqEncoder], Seq2SeqEncoder]) -> None:
    """Replace the LSTMs of a biLM. The block of the config, if there is one, becomes part of its options.

    Raises `ConfigurationError` for an encoder of another input size.
    """
    if isinstance(contextualizer, Lazy):
        params = contextualizer._params
        config = {"type": params} if isinstance(params, str) else params.as_dict(quiet=True)
        try:
            encoder = contextualizer.construct()
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
