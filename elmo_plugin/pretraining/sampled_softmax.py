"""The softmax that the published biLM was trained with, over the target and a sample of other words."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor, nn
from torch.nn import functional as F

from elmo_plugin.common import at_least
from elmo_plugin.pretraining.softmax import LmSoftmax, WordVectorSoftmax, in_float64
from elmo_plugin.tensors import linear

SCORES_IN_BLOCK = 2**18
"""Scores that a CPU computes together, 1 MB in float32."""


class LogUniformSample(NamedTuple):
    """Distinct rows (K,) in the order in which they were drawn, and the number of tries that this took."""

    rows: Tensor
    n_tries: int


@LmSoftmax.register("sampled")
class SampledSoftmax(WordVectorSoftmax):
    """Trains on the target and K sampled words, as bilm-tf does with TensorFlow's `sampled_softmax_loss`.

    The words are drawn as by `log_uniform_candidate_sampler`, and all tokens of a call share them. The logarithm of the
    expected count of a word in the sample is subtracted from its score. A target that is also in the sample is scored
    once. In evaluation `forward` returns `nll`, as in bilm-tf.

    Registered as a `LmSoftmax` with name `sampled`.

    ```jsonnet
    softmax: { type: 'sampled', n_samples: 8192 },
    ```

    # Parameters

    vocab_size, input_dim : `int`
        V and P.
    n_samples : `int`
        K, less than V.
    tokens_at_once : `Optional[int]`
        As in `full`, for evaluation.
    seed : `int`
        The n-th draw depends on `seed` and n alone. All processes of a distributed run therefore draw the same words,
        and a state dict, which contains n, resumes the sequence.
    sparse : `bool`
        Give the word vectors a sparse gradient, as `sparse` of AllenNLP's `embedding` does: with a large vocabulary a
        step on a GPU takes a little less time (docs/benchmarks.md). For optimizers that accept it, such as `adagrad`,
        in one process. With `grad_norm` it needs PyTorch 2.14.
    """

    exact = False
    row_is_rank = True
    n_draws: Tensor

    def __init__(
        self,
        vocab_size: int,
        input_dim: int,
        n_samples: int = 8192,
        tokens_at_once: Optional[int] = None,
        seed: int = 0,
        sparse: bool = False,
    ) -> None:
        super().__init__(vocab_size, input_dim, tokens_at_once)
        if not 0 < n_samples < vocab_size:
            raise ConfigurationError(
                f"'n_samples': expected at least 1 and less than the vocabulary size {vocab_size}, got {n_samples}"
            )
        at_least(0, seed=seed)
        self.n_samples = n_samples
        self.sparse = sparse
        self.seed = seed
        # A float, because AllenNLP averages the values of state dicts. It counts exactly up to 16 million.
        self.register_buffer("n_draws", torch.zeros(()))
        self._next_draw = 0
        """The value of `n_draws`. To read `n_draws` itself would mean to wait for a GPU."""

    @property
    def config(self) -> dict[str, Any]:
        """The config that builds this softmax, without `sparse`, which not every optimizer accepts."""
        options = {"n_samples": self.n_samples, "tokens_at_once": self.tokens_at_once, "seed": self.seed}
        return {"type": "sampled", **options}

    def tie(self, table: nn.Embedding) -> None:
        """Use the table as the weight. Raises `ConfigurationError` with `sparse`."""
        if self.sparse:
            raise ConfigurationError("'softmax.sparse': expected false with 'share_embedding_softmax', got true")
        super().tie(table)

    def forward(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """Return the losses (N,) over the sample; in evaluation, `nll`."""
        if not self.training:
            return self.nll(vectors, targets)
        n_tokens = len(targets)
        rows, n_tries = self.draw()
        rows = rows.to(targets.device, non_blocking=True)  # (K,)
        both = torch.cat([targets, rows])  # (N + K,)
        weight = F.embedding(both, self.word_vectors(), sparse=self.sparse)  # (N + K, P)
        # 1 - (1 - p)ᵗ, the probability of being drawn in t tries, as in TensorFlow's `range_sampler.cc`
        expected_count = -torch.expm1(n_tries * torch.log1p(-log_uniform(both, self.vocab_size)))  # (N + K,)
        offset = self.bias[both] - expected_count.log().to(self.bias)  # (N + K,)
        right = (vectors * weight[:n_tokens]).sum(dim=1) + offset[:n_tokens]  # (N,)
        drawn = linear(vectors, weight[n_tokens:])  # (N, K), bfloat16 under autocast; all else is float32
        loss: Tensor = SampledCrossEntropy.apply(right, drawn, offset[n_tokens:], targets, rows)
        return loss  # (N,)

    def set_extra_state(self, state: Tensor) -> None:
        """Continue after the last draw: `load_state_dict` has restored `n_draws` when it calls this."""
        self._next_draw = int(self.n_draws)

    def draw(self) -> LogUniformSample:
        """Draw the next K words."""
        entropy = (self.seed, self._next_draw)
        self._next_draw += 1
        self.n_draws += 1
        # torch's generator uses only 32 bits of its seed, so both numbers are mixed into them.
        (seed,) = np.random.SeedSequence(entropy).generate_state(1)
        return draw_log_uniform(self.vocab_size, self.n_samples, torch.Generator().manual_seed(int(seed)))


class SampledCrossEntropy(torch.autograd.Function):
    """−log(eˢ / (eˢ + Σ eʳ)) for the score s of the target and the scores r of all other words of the sample.

    On a CPU it computes a few tokens at a time, whose scores stay in the cache while they are read again and again.
    """

    @staticmethod
    def forward(ctx: Any, right: Tensor, drawn: Tensor, offset: Tensor, targets: Tensor, rows: Tensor) -> Tensor:
        """Return the losses (N,).

        *Shape:* `right`, the scores of the targets, and `targets` (N,) · `drawn` (N, K), the scores of the sample
        without `offset` (K,) · `rows` (K,).
        """
        in_order, order = rows.sort()
        near = torch.searchsorted(in_order, targets).clamp_(max=len(rows) - 1)  # (N,)
        places = order[near].unsqueeze(1), (in_order[near] == targets).unsqueeze(1)  # (N, 1) each
        on_cpu = drawn.device.type == "cpu"
        ctx.block = max(1, SCORES_IN_BLOCK // len(rows)) if on_cpu else len(targets)
        totals = []
        for some, *where, highest in _blocks(ctx.block, drawn, *places, right):
            scores = _without_targets(some, offset, *where)  # (block, K)
            highest = scores.amax(dim=1).maximum(highest)  # (block,)
            exponentials = scores.sub_(highest.unsqueeze(1)).exp_()
            totals.append((exponentials.sum(dim=1), highest))
        sums, highest = (torch.cat(each) for each in zip(*totals, strict=True))  # (N,) each
        total = (sums + (right - highest).exp()).log() + highest  # (N,)
        ctx.save_for_backward(right, drawn, offset, *places, total)
        return total - right

    @staticmethod
    def backward(ctx: Any, d_loss: Tensor) -> tuple[Optional[Tensor], ...]:
        """Return the gradients of `right`, `drawn` and `offset`: the probabilities, less 1 for the target."""
        right, drawn, offset, *places, total = ctx.saved_tensors
        if torch.is_grad_enabled():  # second derivatives: by torch's operators, which can be differentiated again
            scores = torch.cat([right.unsqueeze(1), _without_targets(drawn, offset, *places)], dim=1)  # (N, 1 + K)
            d_right, of_sample = (scores.softmax(dim=1) * d_loss.unsqueeze(1)).tensor_split([1], dim=1)
            return d_right.squeeze(1) - d_loss, of_sample.to(drawn.dtype), of_sample.sum(dim=0), None, None
        d_drawn, d_offset = torch.empty_like(drawn), torch.zeros_like(offset)
        for some, *where, log_sum, factor, d_some in _blocks(ctx.block, drawn, *places, total, d_loss, d_drawn):
            scores = _without_targets(some, offset, *where)  # (block, K)
            probabilities = scores.sub_(log_sum.unsqueeze(1)).exp_().mul_(factor.unsqueeze(1))
            d_some.copy_(probabilities)
            d_offset += probabilities.sum(dim=0)
        return d_loss * torch.expm1(right - total), d_drawn, d_offset, None, None


def _blocks(size: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield the same rows of several tensors, `size` at a time."""
    return zip(*(tensor.split(size) for tensor in tensors), strict=True)


def _without_targets(drawn: Tensor, offset: Tensor, place: Tensor, is_drawn: Tensor) -> Tensor:
    """Return the scores (block, K) plus `offset`, −∞ at a token's `place` if its target `is_drawn`."""
    at_place = drawn.gather(1, place) + offset[place]  # (block, 1)
    return (drawn + offset).scatter_(1, place, at_place.masked_fill(is_drawn, -math.inf))


def log_uniform(rows: Tensor, vocab_size: int) -> Tensor:
    """Return the probability of each row k, log((k + 2) / (k + 1)) / log(V + 1), nearly Zipf's law: (N,) in float64."""
    return torch.log1p(1 / (in_float64(rows) + 1)) / math.log(vocab_size + 1)


def draw_log_uniform(vocab_size: int, n_samples: int, generator: torch.Generator) -> LogUniformSample:
    """Draw words from the log-uniform distribution until `n_samples` are distinct.

    This is TensorFlow's `log_uniform_candidate_sampler` with `unique`, but with many tries at once: the sample is the
    `n_samples` words that were drawn first.
    """
    tries, firsts = np.empty(0, np.int64), np.empty(0, np.int64)
    while len(firsts) < n_samples:
        # Enough for the published vocabulary. If not, as many are appended: the sample depends on no number of tries.
        uniform = torch.rand(len(tries) or 2 * n_samples, dtype=torch.float64, generator=generator)
        drawn = torch.expm1(uniform * math.log(vocab_size + 1)).long()  # ⌊(V + 1)ᵘ⌋ - 1
        tries = np.concatenate([tries, drawn.clamp(max=vocab_size - 1).numpy()])
        firsts = np.sort(np.unique(tries, return_index=True)[1])[:n_samples]  # (K,): the first try of each word
    return LogUniformSample(torch.from_numpy(tries[firsts]), int(firsts[-1]) + 1)
