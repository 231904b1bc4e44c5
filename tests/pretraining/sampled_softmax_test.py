"""The sampled softmax: its sampler against expected counts, its loss against plain Python."""

import math

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.pretraining import softmax as softmaxes
from elmo_plugin.pretraining.softmax import SampledSoftmax

V, P, K = 50, 8, 12


def sampled(vocab_size: int = V, n_samples: int = K, seed: int = 0) -> SampledSoftmax:
    """Return a softmax whose weights do not depend on its seed, and whose bias is not zero."""
    torch.manual_seed(1)
    softmax = SampledSoftmax(vocab_size, P, n_samples, seed=seed)
    torch.nn.init.normal_(softmax.bias)
    return softmax


def next_sample(softmax: SampledSoftmax) -> tuple[Tensor, int]:
    """Return the rows that the next call of `forward` will draw, and the number of tries that this takes."""
    ahead = SampledSoftmax(softmax.vocab_size, P, softmax.n_samples, seed=softmax.seed)
    ahead.load_state_dict(softmax.state_dict())
    return ahead.draw()


def chances(vocab_size: int) -> list[float]:
    return [math.log((word + 2) / (word + 1)) / math.log(vocab_size + 1) for word in range(vocab_size)]


def plain_loss(softmax: SampledSoftmax, rows: Tensor, n_tries: int, vector: Tensor, target: int) -> float:
    """Compute the loss of one token, score by score."""

    def score(word: int) -> float:
        product = sum(x * w for x, w in zip(vector.tolist(), softmax.weight[word].tolist(), strict=True))
        expected = 1 - (1 - chances(softmax.vocab_size)[word]) ** n_tries
        return product + softmax.bias[word].item() - math.log(expected)

    others = [score(word) for word in rows.tolist() if word != target]
    return math.log(sum(math.exp(other) for other in [score(target), *others])) - score(target)


@pytest.mark.parametrize("n_samples", [1, K, V - 1])
def test_the_loss_is_that_of_tensorflows_sampled_softmax_loss(n_samples: int) -> None:
    softmax = sampled(n_samples=n_samples)
    rows, n_tries = next_sample(softmax)
    targets = torch.cat([torch.arange(V), rows])  # accidental hits among them
    vectors = torch.randn(len(targets), P)
    wanted = [plain_loss(softmax, rows, n_tries, *token) for token in zip(vectors, targets.tolist(), strict=True)]
    torch.testing.assert_close(softmax(vectors, targets), torch.tensor(wanted), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("tokens_in_block", [1, 7, 1000])
def test_the_gradients_are_those_of_torchs_cross_entropy(tokens_in_block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmaxes, "SCORES_IN_BLOCK", tokens_in_block * K)
    softmax = sampled().double()
    rows, n_tries = next_sample(softmax)
    targets = torch.cat([torch.arange(V), rows])  # accidental hits among them
    vectors = torch.randn(len(targets), P, dtype=torch.float64, requires_grad=True)
    factors = torch.randn(len(targets), dtype=torch.float64)
    inputs = [vectors, softmax.weight, softmax.bias]
    gradients = torch.autograd.grad((softmax(vectors, targets) * factors).sum(), inputs)

    chance = torch.tensor(chances(V), dtype=torch.float64)
    offset = softmax.bias - (1 - (1 - chance) ** n_tries).log()
    drawn = (vectors @ softmax.weight.T + offset)[:, rows]
    drawn = drawn.masked_fill(targets.unsqueeze(1) == rows, -math.inf)
    right = (vectors * softmax.weight[targets]).sum(dim=1) + offset[targets]
    losses = -torch.cat([right.unsqueeze(1), drawn], dim=1).log_softmax(dim=1)[:, 0]
    torch.testing.assert_close(gradients, torch.autograd.grad((losses * factors).sum(), inputs))


def test_the_derivatives_are_those_of_finite_differences() -> None:
    targets, rows = torch.tensor([3, 0, 7]), torch.tensor([5, 3, 2, 0])  # two of the targets are in the sample
    shapes = ((3,), (3, 4), (4,))
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]

    def loss(*scores: Tensor) -> Tensor:
        losses: Tensor = softmaxes.SampledCrossEntropy.apply(*scores, targets, rows)
        return losses

    assert torch.autograd.gradcheck(loss, inputs) and torch.autograd.gradgradcheck(loss, inputs)


def test_in_evaluation_the_loss_is_that_of_the_full_softmax_and_nothing_is_drawn() -> None:
    softmax = sampled().eval()
    vectors, targets = torch.randn(9, P), torch.arange(9)
    wanted = -(vectors @ softmax.weight.t() + softmax.bias).log_softmax(dim=1)[range(9), range(9)]
    torch.testing.assert_close(softmax(vectors, targets), wanted)
    torch.testing.assert_close(softmax.train().nll(vectors, targets), wanted)
    assert softmax.n_draws.item() == 0


def test_draws_differ_and_depend_on_the_seed_and_leave_torchs_generator_alone() -> None:
    softmaxes = [sampled(seed=seed) for seed in (0, 1, 2**32 + 7, 0)]
    torch.manual_seed(8)
    before = torch.get_rng_state()
    draws = [[tuple(softmax.draw()[0].tolist()) for _ in range(4)] for softmax in softmaxes]
    assert draws[0] == draws[3]  # as two processes of a distributed run
    assert len({rows for draw in draws[:3] for rows in draw}) == 12
    assert torch.equal(before, torch.get_rng_state())


def test_a_sample_as_large_as_the_vocabulary_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match=f"'n_samples'.* 50, got {V}"):
        SampledSoftmax(V, P, V)


def test_sparse_gradients_train_as_dense_ones_and_leave_other_words_alone() -> None:
    def train(sparse: bool) -> SampledSoftmax:
        torch.manual_seed(1)
        softmax = SampledSoftmax(V, P, K, sparse=sparse)
        optimizer = torch.optim.Adagrad(softmax.parameters(), lr=0.2)
        for _ in range(3):
            optimizer.zero_grad()
            losses = [softmax(torch.randn(9, P), torch.randint(V, (9,))).mean() for _ in range(2)]
            (losses[0] + losses[1]).backward()
            optimizer.step()
        assert softmax.weight.grad is not None and softmax.weight.grad.is_sparse == sparse
        return softmax

    dense, sparse = train(False), train(True)
    torch.testing.assert_close(dense.state_dict()["weight"], sparse.state_dict()["weight"])
    assert dense.config == sparse.config  # a checkpoint may be fine-tuned by another optimizer


def test_a_table_that_words_are_read_from_has_no_sparse_gradients() -> None:
    with pytest.raises(ConfigurationError, match=r"'softmax\.sparse'.*'share_embedding_softmax'"):
        SampledSoftmax(V, P, K, sparse=True).tie(torch.nn.Embedding(V + 1, P))
