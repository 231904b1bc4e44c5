"""Whether the words of a vocabulary are sorted by count, as softmaxes need that take a word's row for its rank."""

import logging

import torch
from allennlp.data import Vocabulary
from torch import Tensor

from elmo_plugin.pretraining.softmax import log_uniform
from elmo_plugin.pretraining.vocabulary import MARKS

logger = logging.getLogger(__name__)

FEW_WORDS, WORDS = 200, 20_000
"""The least number of words of a text that are compared with the vocabulary, and the number that is enough."""
LOST_OF_FEW, LOST = 0.6, 0.27
"""The share that is too much, of fewer than `WORDS` words and of as many.

Words by falling count in another kind of text (novels, news, tweets, Wikipedia) lost up to 0.26 in 20,000 words, and
up to 0.47 in 200. In alphabetical order they lost 0.79 or more; with 100 others on top, 0.27 to 0.34 in 20,000 words.
The texts were in three languages, the vocabularies had 60 to 32,000 words.
"""
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
        self._counts = torch.zeros(vocab.get_vocab_size() - 1, dtype=torch.long)  # (V,)
        self._is_judged = False

    def add(self, rows: Tensor, softmax: str) -> None:
        """Count the rows (N,) of a batch, and judge if there are enough. Only the first judgement is logged."""
        if self._is_judged:
            return
        rows = rows.cpu()
        self._counts += rows[rows >= len(MARKS)].bincount(minlength=len(self._counts))
        if self._counts.sum() >= WORDS:
            self.judge(softmax)

    def judge(self, softmax: str) -> None:
        """Log a warning that names the softmax if the rows of the words so far do not fit, or nothing."""
        n_words = int(self._counts.sum())
        if self._is_judged or n_words < FEW_WORDS:
            return
        self._is_judged = True
        if share_lost(self._counts) > (LOST if n_words >= WORDS else LOST_OF_FEW):
            row = int(self._counts.argmax())
            logger.warning(MESSAGE, row + 1, self._vocab.get_token_from_index(row + 1), softmax, ", ".join(MARKS))


def share_lost(counts: Tensor) -> float:
    """Return how much less likely words with these counts (V,) are by their rows than by falling count.

    0 is as likely, and 1 as unlikely as in a random order. The marks, which come first in every vocabulary, have no
    counts.
    """
    nats = -log_uniform(torch.arange(len(counts)), len(counts)).log()[len(MARKS) :]  # (V,) without the marks
    counts = counts[len(MARKS) :]
    by_row, by_count = (counts * nats).sum(), (counts.sort(descending=True).values * nats).sum()
    at_random = counts.sum() * nats.mean()
    return float((by_row - by_count) / (at_random - by_count))
