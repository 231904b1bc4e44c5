"""The perplexity of both directions, with the token counts that a comparison needs, and the training speed."""

import math
from time import perf_counter
from typing import Any, Optional

import torch
from allennlp.nn.util import dist_reduce_sum
from allennlp.training.metrics import Metric
from torch import Tensor

from elmo_plugin.pretraining.softmax import in_float64

COUNTS = ("forward_nats", "backward_nats", "tokens", "unknown")


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
        self.reset()

    def __call__(self, forward: Tensor, backward: Tensor, unknown: Tensor) -> None:  # type: ignore[override]
        """Add N tokens: negative log likelihoods in nats, and whether the forward target is unknown, (N,) each."""
        each = (forward, backward, torch.ones_like(forward), unknown)  # in the order of `COUNTS`
        sums = dist_reduce_sum(torch.stack([in_float64(values).sum() for values in each]))  # (4,), over all processes
        for name, value in zip(COUNTS, sums.tolist(), strict=True):
            self.counts[name] += value

    def get_metric(self, reset: bool = False) -> dict[str, Any]:
        """Return `perplexity`, `forward_perplexity`, `backward_perplexity`, `oov_rate` and `n_tokens`.

        The result is empty if no token was counted, as in training with a `sampled` softmax.
        """
        n_tokens = self.counts["tokens"]
        if not n_tokens:
            return {}
        forward, backward = (self.counts[name] / n_tokens for name in COUNTS[:2])
        metrics = {
            "perplexity": perplexity_of(self.nats()),
            "forward_perplexity": perplexity_of(forward),
            "backward_perplexity": perplexity_of(backward),
            "oov_rate": self.counts["unknown"] / n_tokens,
            "n_tokens": int(n_tokens),
        }
        if reset:
            self.reset()
        return metrics

    def nats(self) -> float:
        """Return the mean negative log likelihood of a token, of both directions; 0 without tokens."""
        return (self.counts["forward_nats"] + self.counts["backward_nats"]) / (2 * self.counts["tokens"] or 1)

    def reset(self) -> None:
        """Set all counts to zero."""
        self.counts = dict.fromkeys(COUNTS, 0.0)


def perplexity_of(nats: float) -> float:
    """Return exp of a mean negative log likelihood: infinity if a float would overflow, NaN for NaN."""
    return math.inf if nats >= 700 else math.exp(nats)


class Throughput:
    """Measures the tokens per second of one process since the first batch."""

    def __init__(self) -> None:
        self._start: Optional[float] = None
        self._tokens = 0

    def add(self, n_tokens: int) -> None:
        """Count a finished batch. The first one only starts the clock."""
        if self._start is None:
            self._start = perf_counter()
        else:
            self._tokens += n_tokens

    def get_metric(self, reset: bool = False) -> dict[str, float]:
        """Return `tokens/s`, once two batches are finished."""
        metric = {}
        if self._start is not None and self._tokens:
            metric["tokens/s"] = self._tokens / (perf_counter() - self._start)
        if reset:
            self._start, self._tokens = None, 0
        return metric
