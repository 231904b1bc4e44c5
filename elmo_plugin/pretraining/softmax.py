"""The softmax that both directions of a biLM share: the interface, and the types `full`, `sampled` and `adaptive`."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Optional

import numpy as np
import torch
from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as recomputed

from elmo_plugin.bilm import build_registered, description_to_tensor
from elmo_plugin.checkpoints import SavedSoftmax
from elmo_plugin.common import at_least, named_errors, without_memory
from elmo_plugin.tensors import Linear, linear

MOST_SCORES = 2**24
"""Scores that a softmax computes at once by default: 64 MB in float32."""
SCORES_IN_BLOCK = 2**18
"""Scores that a CPU computes together, 1 MB in float32."""


class LmSoftmax(nn.Module, ABC, Registrable):
    """Predicts a word from the vector of one direction. Both directions share one softmax (ELMo §3.1, Θ_s).

    Row r belongs to line r of the vocabulary file, counted from 0: words by falling count, without padding. Losses are
    in nats, and have type float32 under `torch.autocast`.

    A softmax of your own with one vector per word is a subclass of `WordVectorSoftmax`, with `config` and, if it trains
    on other losses, `forward`; any other one writes `config` and `nll`, and `tie` if it can share its weight. A wrong
    value of a key is a `ConfigurationError`, `'key': expected X, got Y`.
    See docs/extend.md.

    # Parameters

    vocab_size : `int`
        V, the number of words.
    input_dim : `int`
        P.
    """

    default_implementation = "full"
    exact: bool = True
    """Whether `forward` returns `nll` in training too, so that perplexity can be computed from training losses."""
    row_is_rank: bool = False
    """Whether the row of a word stands for its rank by count, so that a vocabulary in another order does harm."""

    def __init__(self, vocab_size: int, input_dim: int) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.input_dim = input_dim

    @property
    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The config that builds this softmax, including `type`."""

    def get_extra_state(self) -> Tensor:
        """Return the config, so that a checkpoint says which softmax it contains."""
        return description_to_tensor(self.config)

    def set_extra_state(self, state: Tensor) -> None:
        """Do nothing: the shapes of the weights are checked anyway, and training options may differ."""

    def forward(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """Return the training losses (N,) for vectors (N, P) and the rows (N,) that they should predict."""
        return self.nll(vectors, targets)

    @abstractmethod
    def nll(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """Return negative log likelihoods (N,) over all V words, for vectors (N, P) and rows (N,)."""

    def tie(self, table: nn.Embedding) -> None:
        """Share the weight with the table (V + 1, P) of a word encoder, as bilm-tf does for `share_embedding_softmax`.

        Row 0 of the table is padding, so row r of the softmax is row r + 1 of the table. Raises `ConfigurationError`
        for a table of another shape, and for a softmax that does not have one vector per word.
        """
        got = self.config["type"]
        raise ConfigurationError(f"'share_embedding_softmax': expected a softmax 'full' or 'sampled', got {got!r}")


class WordVectorSoftmax(LmSoftmax):
    """The base class of softmaxes with one vector per word, initialized as in bilm-tf's `training.py`.

    # Parameters

    vocab_size, input_dim : `int`
        V and P.
    tokens_at_once : `Optional[int]`
        The number of tokens that `nll` scores at once. Scores are recomputed for the gradients, so they take at most
        about 3 · `tokens_at_once` · V floats of memory. By default it is 512, or with more than 32,768 words as many
        as have `MOST_SCORES` scores, which keeps this memory below 0.2 GB.
    """

    def __init__(self, vocab_size: int, input_dim: int, tokens_at_once: Optional[int] = None) -> None:
        super().__init__(vocab_size, input_dim)
        at_least(1, tokens_at_once=tokens_at_once)
        self.tokens_at_once = tokens_at_once or max(1, min(512, MOST_SCORES // vocab_size))
        self.weight: Tensor = nn.Parameter(torch.randn(vocab_size, input_dim) / math.sqrt(input_dim))  # (V, P)
        self.bias = nn.Parameter(torch.zeros(vocab_size))  # (V,)

    def nll(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """Return negative log likelihoods (N,)."""

        def cross_entropy(vectors: Tensor, targets: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            scores = linear(vectors, weight, bias)  # (N, V), bfloat16 under autocast; the cross entropy is float32
            return nn.functional.cross_entropy(scores, targets, reduction="none")  # (N,)

        weight = self.word_vectors()  # (V, P)
        losses = [
            recomputed(cross_entropy, *chunk, weight, self.bias, use_reentrant=False, preserve_rng_state=False)
            for chunk in _blocks(self.tokens_at_once, vectors, targets)
        ]
        return torch.cat(losses)  # (N,)

    def tie(self, table: nn.Embedding) -> None:
        """Use the table as the weight. The bias is not shared."""
        found, expected = tuple(table.weight.shape), (self.vocab_size + 1, self.input_dim)
        if found != expected:
            raise ConfigurationError(f"'share_embedding_softmax': expected a table of shape {expected}, got {found}")
        self.weight = table.weight

    def word_vectors(self) -> Tensor:
        """Return the weight (V, P) without the padding row with which a tied table begins."""
        padding = len(self.weight) - self.vocab_size
        return self.weight[padding:] if padding else self.weight


@LmSoftmax.register("full")
class FullSoftmax(WordVectorSoftmax):
    """Trains on the exact likelihood, which takes V products per token.

    Registered as a `LmSoftmax` with name `full`.

    >>> softmax = FullSoftmax(vocab_size=10, input_dim=4)
    >>> softmax(torch.zeros(3, 4), torch.tensor([0, 1, 9])).exp().tolist() == [10.0] * 3
    True
    """

    @property
    def config(self) -> dict[str, Any]:
        """The config that builds this softmax."""
        return {"type": "full", "tokens_at_once": self.tokens_at_once}


def at_least_float32(values: Tensor) -> Tensor:
    """Convert float16 and bfloat16 to float32, and leave other types unchanged."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def in_float64(values: Tensor) -> Tensor:
    """Convert values to float64, on the CPU if their device has no float64 (MPS, the GPU of a Mac)."""
    return (values.cpu() if values.device.type == "mps" else values).double()


@LmSoftmax.register("adaptive")
class AdaptiveSoftmax(LmSoftmax):
    """Scores frequent words directly, and rare words in clusters with narrower vectors (Grave et al. 2017).

    The likelihood is exact, and fast to compute. Registered as a `LmSoftmax` with name `adaptive`.

    >>> softmax = AdaptiveSoftmax(vocab_size=100, input_dim=16, cutoffs=[10, 40])
    >>> softmax(torch.randn(3, 16), torch.tensor([0, 20, 99])).shape
    torch.Size([3])

    # Parameters

    vocab_size, input_dim : `int`
        V and P.
    cutoffs : `Optional[list[int]]`
        The rows at which clusters begin, increasing and below V. The words before the first cutoff are scored directly.
        By default they are a sixteenth and five sixteenths of V, as of the 32,000 words of `english-tiny`.
    div_value : `float`
        Cluster i, counted from 1, has vectors of P / `div_value`ⁱ dimensions.
    """

    row_is_rank = True

    def __init__(
        self, vocab_size: int, input_dim: int, cutoffs: Optional[list[int]] = None, div_value: float = 4.0
    ) -> None:
        super().__init__(vocab_size, input_dim)
        if cutoffs is None:
            cutoffs = [max(1, vocab_size // 16), max(2, 5 * vocab_size // 16)]
        if not cutoffs or cutoffs != sorted(set(cutoffs)) or cutoffs[0] < 1 or cutoffs[-1] >= vocab_size:
            raise ConfigurationError(
                f"'softmax.cutoffs': expected increasing numbers from 1 to {vocab_size - 1}, as the vocabulary has "
                f"{vocab_size} words, or null, got {cutoffs}"
            )
        if div_value < 1 or input_dim < div_value ** len(cutoffs):
            raise ConfigurationError(
                f"'div_value': expected 1 or more, and what leaves cluster {len(cutoffs)} at least 1 of {input_dim} "
                f"dimensions, got {div_value}"
            )
        self.adaptive = nn.AdaptiveLogSoftmaxWithLoss(input_dim, vocab_size, cutoffs, div_value)
        for part in self.adaptive.modules():
            if isinstance(part, nn.Linear):
                part.__class__ = Float32Linear  # which differs in `forward` alone

    @property
    def config(self) -> dict[str, Any]:
        """The config that builds this softmax."""
        return {"type": "adaptive", "cutoffs": self.adaptive.cutoffs[:-1], "div_value": self.adaptive.div_value}

    def forward(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """Return the exact negative log likelihoods (N,)."""
        # Distributed training waits for a gradient of every weight, so a cluster without targets gets gradients of 0.
        no_weights = sum(weight.flatten()[:0].sum() for weight in self.adaptive.tail.parameters())
        return self.nll(vectors, targets) + no_weights

    def nll(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """Return negative log likelihoods (N,)."""
        # The log probability of a rare word is a sum of two, computed in the type of the vectors.
        return -self.adaptive(at_least_float32(vectors), targets).output  # (N,)


class Float32Linear(Linear):
    """A `Linear` whose outputs are float32 even under autocast, or else a log-softmax of them would be bfloat16."""

    def forward(self, input: Tensor) -> Tensor:
        """Map values (N, I) to (N, O)."""
        return at_least_float32(super().forward(input))


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
        return {
            "type": "sampled",
            "n_samples": self.n_samples,
            "tokens_at_once": self.tokens_at_once,
            "seed": self.seed,
        }

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
        weight = nn.functional.embedding(both, self.word_vectors(), sparse=self.sparse)  # (N + K, P)
        # 1 - (1 - p)ᵗ, the probability of being drawn in t tries, as in TensorFlow's `range_sampler.cc`
        expected_count = -torch.expm1(n_tries * torch.log1p(-log_uniform(both, self.vocab_size)))  # (N + K,)
        offset = self.bias[both] - expected_count.log().to(self.bias)  # (N + K,)
        right = (vectors * weight[:n_tokens]).sum(dim=1) + offset[:n_tokens]  # (N,)
        drawn = linear(vectors, weight[n_tokens:])  # (N, K), bfloat16 under autocast; all else is float32
        return SampledCrossEntropy.apply(right, drawn, offset[n_tokens:], targets, rows)  # (N,)

    def set_extra_state(self, state: Tensor) -> None:
        """Continue after the last draw: `load_state_dict` has restored `n_draws` when it calls this."""
        self._next_draw = int(self.n_draws)

    def draw(self) -> tuple[Tensor, int]:
        """Draw the rows (K,) of the next K words, and return them with the number of tries that this took."""
        # torch's generator uses only 32 bits of its seed, so both numbers are mixed into them.
        (seed,) = np.random.SeedSequence((self.seed, self._next_draw)).generate_state(1)
        self._next_draw += 1
        self.n_draws += 1
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
        ctx.block = max(1, SCORES_IN_BLOCK // len(rows)) if drawn.device.type == "cpu" else len(targets)
        totals = []
        for some, *where, of_target in _blocks(ctx.block, drawn, *places, right):
            scores = _without_targets(some, offset, *where)  # (block, K)
            highest = scores.amax(dim=1).maximum(of_target)  # (block,)
            others = scores.sub_(highest.unsqueeze(1)).exp_().sum(dim=1)
            totals.append((others + (of_target - highest).exp()).log() + highest)
        total = torch.cat(totals)  # (N,)
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


def draw_log_uniform(vocab_size: int, n_samples: int, generator: torch.Generator) -> tuple[Tensor, int]:
    """Draw words from the log-uniform distribution until `n_samples` are distinct.

    Return their rows (K,), in the order in which they were drawn, and the number of tries that this took. This is
    TensorFlow's `log_uniform_candidate_sampler` with `unique`, but with many tries at once: the sample is the
    `n_samples` words that were drawn first.
    """
    tries, firsts = np.empty(0, np.int64), np.empty(0, np.int64)
    while len(firsts) < n_samples:
        # Enough for the published vocabulary. If not, as many are appended: the sample depends on no number of tries.
        uniform = torch.rand(len(tries) or 2 * n_samples, dtype=torch.float64, generator=generator)
        drawn = torch.expm1(uniform * math.log(vocab_size + 1)).long()  # ⌊(V + 1)ᵘ⌋ - 1
        tries = np.concatenate([tries, drawn.clamp(max=vocab_size - 1).numpy()])
        firsts = np.sort(np.unique(tries, return_index=True)[1])[:n_samples]  # (K,): the first try of each word
    return torch.from_numpy(tries[firsts]), int(firsts[-1]) + 1


def saved_softmax(saved: SavedSoftmax, vocabulary: Optional[list[str]], words: list[str], input_dim: int) -> LmSoftmax:
    """Return the softmax that a biLM was trained with, to predict these words.

    A stranger's file may hold its config, see `build_registered`.

    Raises `ConfigurationError` if its `vocabulary` is not the same words, or if its config does not fit its weights.
    """
    if vocabulary != words:
        raise ConfigurationError(
            f"'bilm': expected a softmax over the {len(words)} words of the vocabulary, got one over "
            f"{len(vocabulary or [])} others; use a vocabulary of type 'pretrained_bilm', or set 'softmax'"
        )
    config, weights = dict(saved.config), dict(saved.state_dict)
    if "weight" in weights and len(weights["weight"]) == len(words) + 1:
        weights["weight"] = weights["weight"][1:]  # it was tied to a table of words, whose row 0 is padding
    config |= {"vocab_size": len(words), "input_dim": input_dim}
    place = "'bilm': expected a softmax whose config fits its weights"
    with named_errors(place, ArithmeticError, ConfigurationError, RuntimeError, TypeError, ValueError):
        with without_memory():  # the names and shapes are compared before there is memory for them
            softmax: LmSoftmax = build_registered(LmSoftmax, config, "softmax", is_trusted=False)
            softmax.load_state_dict({"_extra_state": None, **weights}, assign=True)
        softmax = build_registered(LmSoftmax, config, "softmax", is_trusted=False)
        softmax.load_state_dict({"_extra_state": None, **weights})
    return softmax
