"""The character encoder alone as a `TokenEmbedder`: word vectors without context, trained with the task."""

from allennlp.common.checks import ConfigurationError
from allennlp.modules import TokenEmbedder
from torch import Tensor

from elmo_plugin.bilm import CharacterEncoder, CharCnnOptions
from elmo_plugin.common import at_least
from elmo_plugin.elmo.elmo import merge_batch_dimensions


@TokenEmbedder.register("elmo_char_cnn", constructor="from_config")
class ElmoCharCnnEmbedder(TokenEmbedder):
    """Embeds each token by the character encoder of a biLM, from `elmo_characters` ids.

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
        try:
            return cls(CharacterEncoder(CharCnnOptions.from_dict(char_cnn), output_dim))
        except ConfigurationError as error:
            raise ConfigurationError(f"'elmo_char_cnn': {error}") from error

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
