"""The token encoder of word-input biLMs: an embedding."""

from torch import Tensor, nn

from elmo_plugin.bilm.token_encoder import TokenEncoder, TokenTable


class WordEncoder(TokenEncoder):
    """An embedding of the words of a vocabulary file: its first line has the id 1, and 0 is the mask.

    AllenNLP's `single_id` indexer gives these ids when its vocabulary is read from that file (`"oov_token": "<UNK>"`).

    # Parameters

    n_tokens_vocab : `int`
        The number of lines of the vocabulary file (V).
    output_dim : `int`
        The width of a word's vector (P).
    boundary_ids : `tuple[int, int]`
        The ids of `<S>` and `</S>`.
    """

    input_dims = 2

    def __init__(self, n_tokens_vocab: int, output_dim: int, boundary_ids: tuple[int, int] = (1, 2)) -> None:
        super().__init__()
        self.boundary_ids = boundary_ids
        self.embedding = nn.Embedding(n_tokens_vocab + 1, output_dim, padding_idx=0)

    @property
    def weight(self) -> Tensor:
        """Return the vectors of words."""
        return self.embedding.weight

    def boundaries(self, ids: Tensor) -> tuple[int, int]:
        """Return the ids of `<S>` and `</S>`."""
        return self.boundary_ids

    def fit(self, ids: Tensor) -> Tensor:
        """Return the ids (B, T) as they are."""
        return ids

    def mask(self, ids: Tensor) -> Tensor:
        """Return the mask of the tokens (B, T)."""
        return ids > 0

    def look_up(self, ids: Tensor) -> TokenTable:
        """Return the whole embedding and the ids (B, T). Raises `ValueError` for an id that has no row."""
        highest = int(ids.max()) if ids.numel() else 0
        if highest >= self.embedding.num_embeddings:
            raise ValueError(
                f"expected word ids up to {self.embedding.num_embeddings - 1}, got the id {highest}: read the text "
                "with the vocabulary that the biLM was trained with; if that has no <UNK>, it must have every word"
            )
        return TokenTable(self.embedding.weight, ids)
