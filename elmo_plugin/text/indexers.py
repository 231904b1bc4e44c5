"""The token indexer for biLMs in the format of ELMoForManyLangs."""

import torch
from allennlp.common.util import pad_sequence_to_length
from allennlp.data import Token, TokenIndexer, Vocabulary
from torch import Tensor

from elmo_plugin.common import at_least
from elmo_plugin.text.code_points import word_to_code_points

IndexedTokens = dict[str, list[list[int]]]


@TokenIndexer.register("elmo_many_langs")
class ManyLangsIndexer(TokenIndexer):
    """Represent a token by its Unicode code points, which the biLM looks up in its own vocabularies.

    >>> ManyLangsIndexer(6).tokens_to_indices([Token("ab")], Vocabulary())
    {'elmo_tokens': [[262, 360, 361, 0, 0]]}

    Registered as a `TokenIndexer` with name `elmo_many_langs`.

    # Parameters

    max_characters_per_token : `int`
        C of the biLM. A smaller value than the biLM's cuts words earlier, to C − 2 characters.
    token_min_padding_length : `int`
        The smallest number of tokens in a padded sentence.
    """

    def __init__(self, max_characters_per_token: int = 50, token_min_padding_length: int = 0) -> None:
        at_least(3, max_characters_per_token=max_characters_per_token)  # two marks and one character
        at_least(0, token_min_padding_length=token_min_padding_length)
        super().__init__(token_min_padding_length)
        self.max_characters_per_token = max_characters_per_token

    def count_vocab_items(self, token: Token, counter: dict[str, dict[str, int]]) -> None:
        """Count nothing, because the vocabulary is not used."""

    def get_empty_token_list(self) -> IndexedTokens:
        """Return the indices of a text without tokens."""
        return {"elmo_tokens": []}

    def tokens_to_indices(self, tokens: list[Token], vocabulary: Vocabulary) -> IndexedTokens:
        """Return the code points of each token."""
        width = self.max_characters_per_token
        return {"elmo_tokens": [word_to_code_points(token.ensure_text(), width) for token in tokens]}

    def as_padded_tensor_dict(self, tokens: IndexedTokens, padding_lengths: dict[str, int]) -> dict[str, Tensor]:
        """Return `elmo_tokens` (T, C − 1)."""
        nothing = [0] * (self.max_characters_per_token - 1)
        padded = pad_sequence_to_length(tokens["elmo_tokens"], padding_lengths["elmo_tokens"], lambda: nothing)
        return {"elmo_tokens": torch.tensor(padded, dtype=torch.long).view(-1, len(nothing))}  # (T, C − 1)
