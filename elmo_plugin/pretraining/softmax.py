"""The output layer that both directions of a biLM share: what it is, and the two that train on the likelihood."""

import math
from abc import ABC, abstractmethod
from functools import partial
from typing import Any

import torch
from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from elmo_plugin.bilm import description_to_tensor
from elmo_plugin.config_keys import at_least
from elmo_plugin.linear import linear, with_linear


class LmSoftmax(nn.Module, ABC, Registrable):
    """Predicts a word from what one direction has read up to it; both directions share one (ELMo §3.1, Θ_s).

    Row r is line r of the vocabulary file, counted from 0: words by falling count, without padding. Losses are in
    nats, and in float32 under `torch.autocast`.

    # Parameters

    vocab_size : `int`
        V, words that it chooses from.
    input_dim : `int`
        P.
    """

    default_implementation = "full"
    exact: bool = True
    """Whether `forward` trains on `nll` itself, so that a training loss can be read as perplexity."""

    def __init__(self, vocab_size: int, input_dim: int) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.input_dim = input_dim

    @property
    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Its block of a config, `type` included."""

    def get_extra_state(self) -> Tensor:
        """Return the config: a checkpoint says by itself which softmax it holds."""
        return description_to_tensor(self.config)

    def set_extra_state(self, state: Tensor) -> None:
        """Nothing: sizes are checked where weights are loaded, and how it is trained may change."""

    @abstractmethod
    def forward(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """The training loss: vectors (N, P) and the rows (N,) that they should predict to losses (N,)."""

    @abstractmethod
    def nll(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """Negative log likelihood over all V of the rows (N,), by vectors (N, P): what perplexity is made of, (N,)."""

    @abstractmethod
    def tie(self, table: nn.Embedding) -> None:
        """Share the weight with a word encoder's table (V + 1, P): row r is the table's r + 1, whose row 0 is padding.

        bilm-tf's `share_embedding_softmax`. Raises `ConfigurationError` for a table of another shape, or a softmax
        that has no vector for each word.
        """


class WordVectorSoftmax(LmSoftmax):
    """A softmax of the products with one vector for each word, started as bilm-tf's `training.py` does.

    # Parameters

    vocab_size, input_dim : `int`
        V and P.
    tokens_at_once : `int`
        How many tokens are scored against all V before their scores are forgotten, to be computed again for the
        gradients: what bounds the memory of `nll`, at about 3 · `tokens_at_once` · V floats.
    """

    def __init__(self, vocab_size: int, input_dim: int, tokens_at_once: int = 512) -> None:
        super().__init__(vocab_size, input_dim)
        at_least(1, tokens_at_once=tokens_at_once)
        self.tokens_at_once = tokens_at_once
        self.weight: Tensor = nn.Parameter(torch.randn(vocab_size, input_dim) / math.sqrt(input_dim))  # (V, P)
        self.bias = nn.Parameter(torch.zeros(vocab_size))  # (V,)

    def nll(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """(N, P) and (N,) to (N,)."""
        weight = self._word_vectors()  # (V, P)
        chunks = zip(vectors.split(self.tokens_at_once), targets.split(self.tokens_at_once), strict=True)
        forgetful = partial(checkpoint, _cross_entropy, use_reentrant=False, preserve_rng_state=False)
        return torch.cat([forgetful(*chunk, weight, self.bias) for chunk in chunks])  # (N,)

    def tie(self, table: nn.Embedding) -> None:
        """Put the table's weight in place of its own; the bias stays its own."""
        found, wanted = tuple(table.weight.shape), (self.vocab_size + 1, self.input_dim)
        if found != wanted:
            raise ConfigurationError(
                f"'share_embedding_softmax': found a table of words of shape {found}; wanted {wanted} for the softmax"
            )
        self.weight = table.weight

    def _word_vectors(self) -> Tensor:
        """The weight (V, P), without the padding that a tied table has above it."""
        padding = len(self.weight) - self.vocab_size
        return self.weight[padding:] if padding else self.weight


@LmSoftmax.register("full")
class FullSoftmax(WordVectorSoftmax):
    """Trains on the likelihood itself: exact, at V products a token. Registered as a `LmSoftmax` with name `full`."""

    @property
    def config(self) -> dict[str, Any]:
        """Its block of a config."""
        return {"type": "full", "tokens_at_once": self.tokens_at_once}

    def forward(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """(N, P) and (N,) to (N,)."""
        return self.nll(vectors, targets)


def _cross_entropy(vectors: Tensor, targets: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Of the softmax over all V, (N,). Under autocast the scores are of its type, and all after them is float32."""
    scores = linear(vectors, weight, bias)  # (N, V)
    return F.cross_entropy(scores, targets, reduction="none")  # (N,)


def _at_least_float32(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))


@LmSoftmax.register("adaptive")
class AdaptiveSoftmax(LmSoftmax):
    """Scores frequent words at once, rare ones in clusters with narrower vectors (Grave et al. 2017): exact and fast.

    Registered as a `LmSoftmax` with name `adaptive`.

    # Parameters

    vocab_size, input_dim : `int`
        V and P.
    cutoffs : `list[int]`
        Rows at which a cluster begins, increasing and below V; those before the first are the frequent words.
    div_value : `float`
        Cluster i, counted from 1, has vectors of P / `div_value`ⁱ dimensions.
    """

    def __init__(self, vocab_size: int, input_dim: int, cutoffs: list[int], div_value: float = 4.0) -> None:
        super().__init__(vocab_size, input_dim)
        if not cutoffs or cutoffs != sorted(set(cutoffs)) or cutoffs[0] < 1 or cutoffs[-1] >= vocab_size:
            raise ConfigurationError(
                f"'cutoffs' is {cutoffs}; wanted increasing numbers from 1 to {vocab_size - 1}, as the vocabulary has "
                f"{vocab_size} words"
            )
        if div_value <= 0 or input_dim < div_value ** len(cutoffs):
            raise ConfigurationError(
                f"'div_value' is {div_value}; wanted one that leaves the vectors of cluster {len(cutoffs)} "
                f"at least 1 of {input_dim} dimensions"
            )
        self.div_value = div_value
        self.adaptive = with_linear(nn.AdaptiveLogSoftmaxWithLoss(input_dim, vocab_size, cutoffs, div_value))
        # Its log-softmax is taken in the type of the scores, on a CPU under autocast too.
        for module in self.adaptive.modules():
            if isinstance(module, nn.Linear):
                module.register_forward_hook(_give_at_least_float32)

    @property
    def config(self) -> dict[str, Any]:
        """Its block of a config."""
        return {"type": "adaptive", "cutoffs": self.adaptive.cutoffs[:-1], "div_value": self.div_value}

    def forward(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """(N, P) and (N,) to (N,)."""
        return self.nll(vectors, targets)

    def nll(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """(N, P) and (N,) to (N,)."""
        # The two log-softmaxes of a rare word are added up in the type of the vectors.
        return -self.adaptive(_at_least_float32(vectors), targets).output  # (N,)

    def tie(self, table: nn.Embedding) -> None:
        """Raise `ConfigurationError`: rare words have narrower vectors here than a table of words has."""
        raise ConfigurationError(
            "'share_embedding_softmax': found an 'adaptive' softmax, whose vectors of rare words are narrower; "
            "wanted 'full' or 'sampled'"
        )


def _give_at_least_float32(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    return _at_least_float32(output)
