"""Whether the words of a vocabulary are sorted by count, as softmaxes need that take a word's row for its rank."""

import logging
from typing import Optional

import torch
from allennlp.data import Vocabulary
from torch import Tensor

from elmo_plugin.pretraining.sampled_softmax import log_uniform
from elmo_plugin.pretraining.vocabulary import MARKS

logger = logging.getLogger(__name__)

WORDS = 20_000
"""The number of words of the text that are compared with the vocabulary."""
MOST_NATS = 1.2
"""Of English novels, reviews, news or tweets, the words of a vocabulary that was sorted by their counts in novels took
up to 1.0 nats more by their rows than by their counts in the text; with 100 other words on top of it they took 1.4 to
2.1 more, in the alphabetical order 4 and in a random order 5 (33,806 words)."""
MESSAGE = (
    "the vocabulary is not sorted by count: its line %d is %r, the most frequent word of the text. The softmax %r "
    "takes the line of a word for its rank, so the biLM becomes worse while the training loss looks better. Sort the "
    "lines after %s by falling count, as a vocabulary of type 'text_shards' does, or use the softmax 'full'"
)


class WordOrder:
    """Compares the rows of the words in a text with their counts in it, and logs a warning if they do not fit.

    A log-uniform distribution, which is nearly Zipf's law, says how likely a word is by its rank. If the text is much
    less likely by the rows than by the ranks in the text itself, the rows are no ranks.

    # Parameters

    vocab : `Vocabulary`
        The vocabulary of a language model, in which the word of row r has the id r + 1.
    """

    def __init__(self, vocab: Vocabulary) -> None:
        self._vocab = vocab
        self._counts: Optional[Tensor] = torch.zeros(vocab.get_vocab_size() - 1, dtype=torch.long)  # (V,)

    def add(self, rows: Tensor, softmax: str) -> None:
        """Count the rows (N,) of a batch. When there are enough, log a warning that names the softmax, or nothing."""
        if self._counts is None:
            return
        rows = rows.cpu()
        self._counts += rows[rows >= len(MARKS)].bincount(minlength=len(self._counts))
        if int(self._counts.sum()) < WORDS:
            return
        counts, self._counts = self._counts, None
        if nats_lost(counts) > MOST_NATS:
            row = int(counts.argmax())
            logger.warning(MESSAGE, row + 1, self._vocab.get_token_from_index(row + 1), softmax, ", ".join(MARKS))


def nats_lost(counts: Tensor) -> float:
    """Return how much less likely words with these counts (V,) are by their rows than by falling count, in nats a word.

    The marks, which come first in every vocabulary, have no counts.
    """
    nats = -log_uniform(torch.arange(len(counts)), len(counts)).log()  # (V,)
    ranked = counts[len(MARKS) :].sort(descending=True).values
    lost = (counts * nats).sum() - (ranked * nats[len(MARKS) :]).sum()
    return float(lost / counts.sum().clamp(min=1))
