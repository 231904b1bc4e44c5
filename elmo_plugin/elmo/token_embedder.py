"""ELMo as a `TokenEmbedder`, at the input of any AllenNLP model; and its character encoder alone."""

import logging
from typing import Any, Optional

from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.modules import TokenEmbedder
from torch import Tensor

from elmo_plugin.bilm import CharacterEncoder, CharCnnOptions
from elmo_plugin.common import at_least, named_errors
from elmo_plugin.elmo.elmo import Elmo, merge_batch_dimensions, rename

logger = logging.getLogger(__name__)


@TokenEmbedder.register("elmo")
class ElmoTokenEmbedder(TokenEmbedder):
    """Embeds each token by one ELMo representation.

    It is built like AllenNLP's class of the same name, so code for that only needs another import, and a config for
    `elmo_token_embedder` another `type`. Its keys in a config are those of `Elmo`. A state dict of AllenNLP's class can
    be loaded.

    Registered as a `TokenEmbedder` with name `elmo`. In a config:

    ```jsonnet
    text_field_embedder: { token_embedders: { elmo: { type: 'elmo', bilm: 'english-tiny', mix: 'last' } } },
    ```

        >>> from elmo_plugin.elmo import ElmoTokenEmbedder
        >>> ElmoTokenEmbedder(bilm="english-tiny", projection_dim=64).get_output_dim()
        64

    # Parameters

    options_file, weight_file, do_layer_norm, dropout, requires_grad, projection_dim, vocab_to_cache, \
scalar_mix_parameters
        As in `Elmo`, in AllenNLP's order.
    keys : `Any`
        The other parameters of `Elmo`, by name.
    """

    def __init__(
        self,
        options_file: Optional[str] = None,
        weight_file: Optional[str] = None,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        requires_grad: bool = False,
        projection_dim: Optional[int] = None,
        vocab_to_cache: Optional[list[str]] = None,
        scalar_mix_parameters: Optional[list[float]] = None,
        **keys: Any,
    ) -> None:
        super().__init__()
        self.elmo = Elmo(
            options_file,
            weight_file,
            do_layer_norm=do_layer_norm,
            dropout=dropout,
            requires_grad=requires_grad,
            projection_dim=projection_dim,
            vocab_to_cache=vocab_to_cache,
            scalar_mix_parameters=scalar_mix_parameters,
            **keys,
        )

    @classmethod
    def from_parts(cls, elmo: Elmo) -> "ElmoTokenEmbedder":
        """Build it from an `Elmo` with one mix."""
        embedder = cls.__new__(cls)
        super(ElmoTokenEmbedder, embedder).__init__()
        embedder.elmo = elmo
        return embedder

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
        return cls.from_parts(elmo)

    def get_output_dim(self) -> int:
        """Return the width of a token's representation."""
        return self.elmo.get_output_dim()

    def forward(
        self, elmo_tokens: Optional[Tensor] = None, word_inputs: Optional[Tensor] = None, **named: Tensor
    ) -> Tensor:
        """Embed character ids (B, T, C) or word ids (B, T): return (B, T, output dim).

        AllenNLP passes every tensor of a token indexer under the indexer's own names. `word_inputs` are the ids of
        `vocab_to_cache`, as in `Elmo.forward`.
        """
        ids = self.elmo.ids_of(named) if elmo_tokens is None else elmo_tokens
        return self.elmo(ids, word_inputs).representations[0]

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Also read the state dict of AllenNLP's class."""
        rename(state_dict, f"{prefix}_elmo.", f"{prefix}elmo.")
        rename(state_dict, f"{prefix}_projection.", f"{prefix}elmo.projections.0.")
        super()._load_from_state_dict(state_dict, prefix, *args)


@TokenEmbedder.register("elmo_char_cnn", constructor="from_config")
class ElmoCharCnnEmbedder(TokenEmbedder):
    """Embeds each token by the character encoder of a biLM, from `elmo_characters` ids, trained with the task.

    Registered as a `TokenEmbedder` with name `elmo_char_cnn`. In a config:

    ```jsonnet
    elmo: { type: 'elmo_char_cnn', filters: [[1, 32], [2, 32], [3, 64]], output_dim: 128 },
    ```

    # Parameters

    encoder : `CharacterEncoder`
    """

    def __init__(self, encoder: CharacterEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    @classmethod
    def from_config(
        cls,
        filters: list[list[int]],
        output_dim: int,
        embedding_dim: int = 16,
        n_highway: int = 1,
        activation: str = "relu",
        max_characters_per_token: int = 50,
    ) -> "ElmoCharCnnEmbedder":
        """Build it from the keys of a config, which are named as in `char_cnn` of a bilm-tf options file.

        # Parameters

        filters : a list of [width, channels] pairs, one per convolution
        output_dim : the width of a token's vector
        embedding_dim : the width of a character's vector
        n_highway : the number of highway layers
        activation : the function after the convolutions, `relu` or `tanh`
        max_characters_per_token : the number of ids per token
        """
        at_least(1, output_dim=output_dim, embedding_dim=embedding_dim)
        char_cnn = {
            "filters": filters,
            "embedding": {"dim": embedding_dim},
            "n_highway": n_highway,
            "activation": activation,
            "max_characters_per_token": max_characters_per_token,
        }
        with named_errors("'elmo_char_cnn'", ConfigurationError):
            return cls(CharacterEncoder(CharCnnOptions.from_dict(char_cnn), output_dim))

    def get_output_dim(self) -> int:
        """Return the width of a token vector (P)."""
        return self.encoder.output_dim

    def forward(self, elmo_tokens: Tensor) -> Tensor:
        """Embed character ids (B, T, C): return (B, T, P), zero where there is no token.

        The ids may have more dimensions before B; the output has the same ones.
        """
        ids, batch = merge_batch_dimensions(elmo_tokens, self.encoder.input_dims)
        ids = self.encoder.fit(ids)  # (B, T, C)
        vectors = self.encoder(ids) * self.encoder.mask(ids).unsqueeze(-1)  # (B, T, P)
        return vectors.unflatten(0, batch)
