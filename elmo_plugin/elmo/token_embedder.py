"""ELMo as a `TokenEmbedder`: at the input of any AllenNLP model."""

import logging
from typing import Any, Optional

from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.modules import TokenEmbedder
from torch import Tensor

from elmo_plugin.elmo.elmo import Elmo

logger = logging.getLogger(__name__)


@TokenEmbedder.register("elmo")
class ElmoTokenEmbedder(TokenEmbedder):
    """Embeds each token by one ELMo representation.

    Its keys in a config are those of `Elmo`. A config written for AllenNLP's `elmo_token_embedder` only needs another
    `type`.

    Registered as a `TokenEmbedder` with name `elmo`. In a config:

    ```jsonnet
    text_field_embedder: { token_embedders: { elmo: { type: 'elmo', bilm: 'english-tiny', mix: 'last' } } },
    ```

    # Parameters

    elmo : `Elmo`
        An `Elmo` with one mix.
    """

    def __init__(self, elmo: Elmo) -> None:
        super().__init__()
        self.elmo = elmo

    @classmethod
    def from_params(
        cls, params: Params, constructor_to_call: Any = None, constructor_to_inspect: Any = None, **extras: Any
    ) -> "ElmoTokenEmbedder":
        """Build it from the keys of `Elmo`. Raises `ConfigurationError` for `num_output_representations`."""
        if "num_output_representations" in params:
            raise ConfigurationError(
                "'num_output_representations' is a key of the module `Elmo`; a token embedder has one representation"
            )
        elmo = Elmo.from_params(params, **extras)
        if elmo.keep_sentence_boundaries:
            logger.warning(
                "'keep_sentence_boundaries' gives vectors (B, T + 2, ·); AllenNLP's models take the text's own mask "
                "(B, T) and would read the wrong tokens, so use it only with your own model that expects boundaries"
            )
        return cls(elmo)

    def get_output_dim(self) -> int:
        """Return the width of a token's representation."""
        return self.elmo.get_output_dim()

    def forward(self, elmo_tokens: Optional[Tensor] = None, **named: Tensor) -> Tensor:
        """Embed character ids (B, T, C) or word ids (B, T): return (B, T, output dim).

        AllenNLP passes every tensor of a token indexer under the indexer's own names.
        """
        ids = self.elmo.ids_of(named) if elmo_tokens is None else elmo_tokens
        return self.elmo(ids).representations[0]
