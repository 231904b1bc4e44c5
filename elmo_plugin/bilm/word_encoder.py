"""The token encoder of word-input biLMs: a table of vectors."""

from torch import Tensor, nn

from elmo_plugin.bilm.token_encoder import TokenEncoder, TokenTable

BEGIN_ID, END_ID, UNKNOWN_ID = 1, 2, 3
"""Of `<S>`, `</S>` and `<UNK>`, the first lines of a vocabulary in bilm-tf's form."""


class WordEncoder(TokenEncoder):
    """An embedding of a vocabulary in bilm-tf's form: line i of its file is row i + 1, row 0 is masked.

    AllenNLP's `single_id` indexer gives these ids when its vocabulary is read from that file (`"oov_token": "<UNK>"`).

    # Parameters

    n_tokens_vocab : `int`
        V, lines of the vocabulary file.
    output_dim : `int`
        P.
    """

    input_dims = 2

    def __init__(self, n_tokens_vocab: int, output_dim: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_tokens_vocab + 1, output_dim, padding_idx=0)

    def boundaries(self, ids: Tensor) -> tuple[int, int]:
        """The ids of `<S>` and `</S>`."""
        return BEGIN_ID, END_ID

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
                f"word id {int(ids.max())} in the input; wanted at most {self.embedding.num_embeddings - 1}: "
                "read the text with the vocabulary that the biLM was trained with"
            )
        return TokenTable(self.embedding.weight, ids)
