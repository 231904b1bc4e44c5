"""What training measures: perplexity with its token counts, speed, and whether the vocabulary is sorted by count."""

import logging
import math
from time import perf_counter
from typing import Any, Optional

import torch
from allennlp.data import Vocabulary
from allennlp.nn.util import dist_reduce_sum
from allennlp.training.metrics import Metric
from torch import Tensor

from elmo_plugin.pretraining.softmax import in_float64, log_uniform
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


@Metric.register("bidirectional_perplexity")
class BidirectionalPerplexity(Metric):
    """Computes exp of the mean negative log likelihood per token, for each direction and for the mean of both.

    Each direction predicts the words and one boundary per sentence. `<UNK>` counts as a word, and `oov_rate` is its
    share of all tokens, from 0 to 1. The mean is taken over the log likelihoods of both directions, as in ELMo §3.1 and
    for the 39.7 of the published model.

    Registered as a `Metric` with name `bidirectional_perplexity`.

    >>> metric = BidirectionalPerplexity()
    >>> metric(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 3.0]), torch.tensor([False, True]))
    >>> {name: round(value, 2) for name, value in metric.get_metric().items()}
    {'perplexity': 4.48, 'forward_perplexity': 2.72, 'backward_perplexity': 7.39, 'oov_rate': 0.5, 'n_tokens': 2}
    """

    def __init__(self) -> None:
        self.sums = [0.0] * 4
        """Of all processes: the nats of each direction, the tokens, and those whose target is unknown."""

    @torch.no_grad()
    def __call__(self, forward: Tensor, backward: Tensor, unknown: Tensor) -> None:  # type: ignore[override]
        """Add N tokens: negative log likelihoods in nats, and whether the forward target is unknown, (N,) each."""
        each = (forward, backward, torch.ones_like(forward), unknown)
        sums = torch.stack([in_float64(values).sum() for values in each])  # (4,)
        self.sums = [before + more for before, more in zip(self.sums, dist_reduce_sum(sums).tolist(), strict=True)]

    def get_metric(self, reset: bool = False) -> dict[str, Any]:
        """Return `perplexity`, `forward_perplexity`, `backward_perplexity`, `oov_rate` and `n_tokens`.

        The result is empty if no token was counted, as in training with a `sampled` softmax.
        """
        forward, backward, n_tokens, n_unknown = self.sums
        if not n_tokens:
            return {}
        metrics = {
            "perplexity": perplexity_of(self.nats()),
            "forward_perplexity": perplexity_of(forward / n_tokens),
            "backward_perplexity": perplexity_of(backward / n_tokens),
            "oov_rate": n_unknown / n_tokens,
            "n_tokens": int(n_tokens),
        }
        if reset:
            self.reset()
        return metrics

    def nats(self) -> float:
        """Return the mean negative log likelihood of a token, of both directions; 0 without tokens."""
        forward, backward, n_tokens, _ = self.sums
        return (forward + backward) / (2 * n_tokens or 1)

    def reset(self) -> None:
        """Forget all tokens."""
        self.sums = [0.0] * 4


def perplexity_of(nats: float) -> float:
    """Return exp of a mean negative log likelihood: infinity if a float would overflow, NaN for NaN."""
    return math.inf if nats >= 700 else math.exp(nats)


class Throughput:
    """Measures the tokens per second of one process since the first batch."""

    def __init__(self) -> None:
        self._start = 0.0
        self._tokens = 0

    def add(self, n_tokens: int) -> None:
        """Count a finished batch. The first one only starts the clock."""
        if self._start:
            self._tokens += n_tokens
        else:
            self._start = perf_counter()

    def get_metric(self, reset: bool = False) -> dict[str, float]:
        """Return `tokens/s`, once two batches are finished."""
        metric = {"tokens/s": self._tokens / (perf_counter() - self._start)} if self._tokens else {}
        if reset:
            self._start, self._tokens = 0.0, 0
        return metric


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
        """Count the rows (N,) of a batch, and judge if there are enough. Only the first judgement is logged."""
        if self._counts is not None:
            rows = rows.cpu()
            self._counts += rows[rows >= len(MARKS)].bincount(minlength=len(self._counts))
            if self._counts.sum() >= WORDS:
                self.judge(softmax)

    def judge(self, softmax: str) -> None:
        """Log a warning that names the softmax if the rows of the words so far do not fit, or nothing."""
        counts = self._counts
        if counts is None or counts.sum() < FEW_WORDS:
            return
        self._counts = None
        if share_lost(counts) > (LOST if counts.sum() >= WORDS else LOST_OF_FEW):
            row = int(counts.argmax())
            logger.warning(
                "the vocabulary is not sorted by count: its line %d is %r, the most frequent word of the text. The "
                "softmax %r takes the line of a word for its rank, so the biLM becomes worse while the training loss "
                "looks better. Sort the lines after %s by falling count, as a vocabulary of type 'text_shards' does, "
                "or use the softmax 'full'",
                row + 1,
                self._vocab.get_token_from_index(row + 1),
                softmax,
                ", ".join(MARKS),
            )


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
