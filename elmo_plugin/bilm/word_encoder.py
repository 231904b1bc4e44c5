"""The token encoder of word-input biLMs: a table of vectors."""

from torch import Tensor, nn

from elmo_plugin.bilm.token_encoder import TokenEncoder, TokenTable


class WordEncoder(TokenEncoder):
    """An embedding of the words of a vocabulary file: its first line is row 1, and row 0 is masked.

    AllenNLP's `single_id` indexer gives these ids when its vocabulary is read from that file (`"oov_token": "<UNK>"`).

    # Parameters

    n_tokens_vocab : `int`
        V, lines of the vocabulary file.
    output_dim : `int`
        P.
    boundary_ids : `tuple[int, int]`
        The ids of `<S>` and `</S>`.
    """

    input_dims = 2

    def __init__(self, n_tokens_vocab: int, output_dim: int, boundary_ids: tuple[int, int] = (1, 2)) -> None:
        super().__init__()
        self.boundary_ids = boundary_ids
        self.embedding = nn.Embedding(n_tokens_vocab + 1, output_dim, padding_idx=0)

    def boundaries(self, ids: Tensor) -> tuple[int, int]:
        """Return the ids of `<S>` and `</S>`."""
        return self.boundary_ids

    def fit(self, ids: Tensor) -> Tensor:
        """Ids as they are, (B, T)."""
        return ids

    def mask(self, ids: Tensor) -> Tensor:
        """Where there is a token, (B, T)."""
        return ids > 0

    def look_up(self, ids: Tensor) -> TokenTable:
        """Word ids (B, T) and the whole table. Raises `ValueError` for an id that the table has no row for."""
        if ids.numel() and int(ids.max()) >= self.embedding.num_embeddings:
            raise ValueError(
                f"word id {int(ids.max())} in the input; expected at most {self.embedding.num_embeddings - 1}: "
                "read the text with the vocabulary that the biLM was trained with. If it has no <UNK>, the text "
                "may have no other words"
            )
        return TokenTable(self.embedding.weight, ids)
