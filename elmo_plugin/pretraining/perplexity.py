"""Perplexity of both directions, with what is needed to trust it beside it."""

import math
from time import perf_counter
from typing import Any, Optional

import torch
from allennlp.nn.util import dist_reduce_sum
from allennlp.training.metrics import Metric
from torch import Tensor

COUNTS = ("forward_nats", "backward_nats", "tokens", "unknown")


@Metric.register("bidirectional_perplexity")
class BidirectionalPerplexity(Metric):
    """exp of the mean negative log likelihood a token, each direction apart and for the mean of both.

    Tokens are those that a direction predicts: the words and one sentence boundary a sentence. `<UNK>` is a word like
    any other; its share of all tokens, from 0 to 1, is told as `oov_rate`. The mean is over the two log likelihoods, as
    in ELMo §3.1 and the 39.7 of the published model.

    Registered as a `Metric` with name `bidirectional_perplexity`.
    """

    def __init__(self) -> None:
        self.reset()

    def __call__(self, forward: Tensor, backward: Tensor, unknown: Tensor) -> None:  # type: ignore[override]
        """Add tokens: two negative log likelihoods in nats, and whether the forward target is unknown, (N,) each."""
        each = (forward, backward, torch.ones_like(forward), unknown)  # in the order of `COUNTS`
        sums = dist_reduce_sum(torch.stack([values.double().sum() for values in each]))  # (4,), of all processes
        for name, value in zip(COUNTS, sums.tolist(), strict=True):
            self.counts[name] += value

    def get_metric(self, reset: bool = False) -> dict[str, Any]:
        """`perplexity`, `forward_perplexity`, `backward_perplexity`, `oov_rate` and `n_tokens` so far.

        Nothing at all before the first token: a `sampled` softmax has no perplexity in training.
        """
        n_tokens = self.counts["tokens"]
        if not n_tokens:
            return {}
        forward, backward = (self.counts[name] / n_tokens for name in COUNTS[:2])
        metrics = {
            "perplexity": perplexity_of((forward + backward) / 2),
            "forward_perplexity": perplexity_of(forward),
            "backward_perplexity": perplexity_of(backward),
            "oov_rate": self.counts["unknown"] / n_tokens,
            "n_tokens": int(self.counts["tokens"]),
        }
        if reset:
            self.reset()
        return metrics

    def reset(self) -> None:
        """Forget all tokens."""
        self.counts = dict.fromkeys(COUNTS, 0.0)


def perplexity_of(nats: float) -> float:
    """exp of a mean negative log likelihood, infinite where a float ends."""
    return math.exp(nats) if nats < 700 else math.inf


class Throughput:
    """Tokens a second since the first batch, of one process."""

    def __init__(self) -> None:
        self._start: Optional[float] = None
        self._tokens = 0

    def add(self, n_tokens: int) -> None:
        """Count a batch that is done; the first one starts the clock."""
        if self._start is None:
            self._start = perf_counter()
        else:
            self._tokens += n_tokens

    def get_metric(self, reset: bool = False) -> dict[str, float]:
        """`tokens/s`, once two batches are done."""
        metric = {}
        if self._start is not None and self._tokens:
            metric["tokens/s"] = self._tokens / (perf_counter() - self._start)
        if reset:
            self.reset()
        return metric

    def reset(self) -> None:
        """Set all counts to zero."""
        self._start, self._tokens = None, 0
