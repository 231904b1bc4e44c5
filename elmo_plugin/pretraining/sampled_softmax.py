"""The softmax that the published biLM was trained with: over the right word and a sample of others."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor
from torch.nn import functional as F

from elmo_plugin.config_keys import at_least
from elmo_plugin.linear import linear
from elmo_plugin.pretraining.softmax import LmSoftmax, WordVectorSoftmax


class LogUniformSample(NamedTuple):
    """Distinct rows (K,) in the order that they turned up in, and how many tries it took to find so many."""

    rows: Tensor
    n_tries: int


@LmSoftmax.register("sampled")
class SampledSoftmax(WordVectorSoftmax):
    """Trains on K words beside the right one, bilm-tf's way: TensorFlow's `sampled_softmax_loss`.

    The K are drawn by `log_uniform_candidate_sampler` and shared by all tokens of a call. Each score is lowered by the
    logarithm of how often its word is expected in a sample, and the right word is not scored again where it was drawn.
    In evaluation `forward` is `nll`, as in bilm-tf.

    Registered as a `LmSoftmax` with name `sampled`.

    # Parameters

    vocab_size, input_dim : `int`
        V and P.
    n_samples : `int`
        K, less than V.
    tokens_at_once : `int`
        As in `full`, for evaluation.
    seed : `int`
        The n-th draw is a function of `seed` and n alone: all processes of a distributed run draw the same words, and
        a state dict, which holds n, goes on with those that would have come next.
    """

    exact = False
    n_draws: Tensor

    def __init__(
        self, vocab_size: int, input_dim: int, n_samples: int = 8192, tokens_at_once: int = 512, seed: int = 0
    ) -> None:
        super().__init__(vocab_size, input_dim, tokens_at_once)
        if not 0 < n_samples < vocab_size:
            raise ConfigurationError(
                f"'n_samples' is {n_samples}; wanted at least 1 and less than the {vocab_size} words of the vocabulary"
            )
        at_least(0, seed=seed)
        self.n_samples = n_samples
        self.seed = seed
        self.register_buffer("n_draws", torch.zeros((), dtype=torch.long))
        self.register_state_dict_post_hook(_save_count_as_float)
        self.register_load_state_dict_pre_hook(_load_count_from_float)

    @property
    def config(self) -> dict[str, Any]:
        """Its block of a config."""
        sizes = {"n_samples": self.n_samples, "tokens_at_once": self.tokens_at_once}
        return {"type": "sampled", **sizes, "seed": self.seed}

    def forward(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """(N, P) and (N,) to (N,)."""
        if not self.training:
            return self.nll(vectors, targets)
        n_tokens = len(targets)
        rows, n_tries = self.draw()
        rows = rows.to(targets.device)  # (K,)
        both = torch.cat([targets, rows])  # (N + K,)
        weight = F.embedding(both, self._word_vectors())  # (N + K, P)
        offset = self.bias[both] - self._expected_count(both, n_tries).log().to(self.bias)  # (N + K,)
        right = (vectors * weight[:n_tokens]).sum(dim=1) + offset[:n_tokens]  # (N,)
        drawn = linear(vectors, weight[n_tokens:]) + offset[n_tokens:]  # (N, K)
        drawn = drawn.masked_fill(targets.unsqueeze(1) == rows, -math.inf)
        scores = torch.cat([right.unsqueeze(1), drawn], dim=1)  # (N, 1 + K)
        return F.cross_entropy(scores, torch.zeros_like(targets), reduction="none")  # (N,)

    def draw(self) -> LogUniformSample:
        """The next K words."""
        entropy = (self.seed, int(self.n_draws))
        self.n_draws += 1
        # A generator of torch's looks at no more than 32 bits of its seed.
        (seed,) = np.random.SeedSequence(entropy).generate_state(1)
        return draw_log_uniform(self.vocab_size, self.n_samples, torch.Generator().manual_seed(int(seed)))

    def _expected_count(self, rows: Tensor, n_tries: int) -> Tensor:
        """1 - (1 - p)ᵗ: the chance of being among t tries, as in TensorFlow's `range_sampler.cc`, (N,)."""
        chance = log_uniform(rows, self.vocab_size)  # (N,)
        return -torch.expm1(n_tries * torch.log1p(-chance))


def _save_count_as_float(softmax: SampledSoftmax, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """State dicts are averaged and compared, which integers do not allow."""
    state_dict[f"{prefix}n_draws"] = state_dict[f"{prefix}n_draws"].double()


def _load_count_from_float(softmax: SampledSoftmax, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Round the count. One that is too large for float16 was lost, and the draws start again."""
    count = state_dict.get(f"{prefix}n_draws")
    if count is not None:
        state_dict[f"{prefix}n_draws"] = count.double().nan_to_num(posinf=0.0).round().long()


def log_uniform(rows: Tensor, vocab_size: int) -> Tensor:
    """p(k) = log((k + 2) / (k + 1)) / log(V + 1), nearly Zipf's law, in float64: rows (N,) to chances (N,)."""
    return torch.log1p(1 / (rows.double() + 1)) / math.log(vocab_size + 1)


def draw_log_uniform(vocab_size: int, n_samples: int, generator: torch.Generator) -> LogUniformSample:
    """Try words from the log-uniform distribution until `n_samples` distinct ones are found.

    TensorFlow's `log_uniform_candidate_sampler` with `unique`, on all tries at once: the try that first found a word
    says whether it is among the first `n_samples`.
    """
    # Enough at once if the vocabulary is some times larger than the sample; the first words of more tries are the same.
    tries = _try(4 * n_samples, vocab_size, generator)
    while len(tries.unique()) < n_samples:
        tries = torch.cat([tries, _try(len(tries), vocab_size, generator)])
    words, place = tries.unique(return_inverse=True)  # (M,), (tries,)
    order = torch.arange(len(tries))
    found_by = torch.full_like(words, len(tries)).scatter_reduce_(0, place, order, "amin")  # (M,)
    first, index = found_by.topk(n_samples, largest=False)  # (K,), (K,)
    return LogUniformSample(words[index], int(first[-1]) + 1)


def _try(count: int, vocab_size: int, generator: torch.Generator) -> Tensor:
    """⌊(V + 1)ᵘ⌋ - 1 for u uniform in [0, 1): (count,)."""
    uniform = torch.rand(count, dtype=torch.float64, generator=generator)  # (count,)
    return torch.expm1(uniform * math.log(vocab_size + 1)).long().clamp(max=vocab_size - 1)
