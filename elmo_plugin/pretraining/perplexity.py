"""The perplexity of both directions, with the token counts that a comparison needs, and the training speed."""

import math
from time import perf_counter
from typing import Any

import torch
from allennlp.nn.util import dist_reduce_sum
from allennlp.training.metrics import Metric
from torch import Tensor

from elmo_plugin.pretraining.softmax import in_float64


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

    @torch.no_grad()
    def __call__(self, forward: Tensor, backward: Tensor, unknown: Tensor) -> None:  # type: ignore[override]
        """Add N tokens: negative log likelihoods in nats, and whether the forward target is unknown, (N,) each."""
        each = (forward, backward, torch.ones_like(forward), unknown)
        sums = torch.stack([in_float64(values).sum() for values in each])  # (4,)
        self.sums += dist_reduce_sum(sums).cpu()

    def get_metric(self, reset: bool = False) -> dict[str, Any]:
        """Return `perplexity`, `forward_perplexity`, `backward_perplexity`, `oov_rate` and `n_tokens`.

        The result is empty if no token was counted, as in training with a `sampled` softmax.
        """
        forward, backward, n_tokens, n_unknown = self.sums.tolist()
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
        forward, backward, n_tokens, _ = self.sums.tolist()
        return (forward + backward) / (2 * n_tokens or 1)

    def reset(self) -> None:
        """Forget all tokens."""
        self.sums = torch.zeros(4, dtype=torch.float64)
        """Of all processes: the nats of each direction, the tokens, and those whose target is unknown."""


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
