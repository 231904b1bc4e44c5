"""The softmaxes `full` and `adaptive`, and the properties of all three: gradients, memory, ties, autocast."""

from typing import Any
from weakref import ref

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from elmo_plugin.checkpoints import SavedSoftmax
from elmo_plugin.pretraining.softmax import AdaptiveSoftmax, FullSoftmax, LmSoftmax, SampledSoftmax, saved_softmax
from elmo_plugin.tensors import Linear

V, P, N = 60, 16, 23
CUTOFFS = [10, 30]


def vectors_and_targets(n_tokens: int = N, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Return vectors large enough for probabilities far from uniform, and targets from the whole vocabulary."""
    generator = torch.Generator().manual_seed(3)
    vectors = 3 * torch.randn(n_tokens, P, generator=generator, dtype=dtype)
    return vectors, torch.randint(V, (n_tokens,), generator=generator)


def lively(softmax: LmSoftmax) -> Any:
    """Give the softmax a bias that is not zero, if it has one."""
    if hasattr(softmax, "bias"):
        nn.init.normal_(softmax.bias)
    return softmax


def every_softmax() -> list[LmSoftmax]:
    torch.manual_seed(0)
    return [FullSoftmax(V, P), SampledSoftmax(V, P, 20), AdaptiveSoftmax(V, P, CUTOFFS)]


def gradients(loss: Tensor, *leaves: Tensor) -> tuple[Tensor, ...]:
    """Return the gradients of a loss in which every token has another weight."""
    return torch.autograd.grad((loss * torch.linspace(-1, 2, len(loss)).to(loss)).sum(), leaves)


@pytest.mark.parametrize(("n_tokens", "tokens_at_once"), [(0, 5), (N, 1), (N, 7), (N, 512)])
def test_full_is_the_cross_entropy_of_all_scores_in_chunks_of_any_size(n_tokens: int, tokens_at_once: int) -> None:
    softmax = lively(FullSoftmax(V, P, tokens_at_once))
    vectors, targets = vectors_and_targets(n_tokens)
    vectors.requires_grad_()
    leaves = (vectors, softmax.weight, softmax.bias)
    wanted = F.cross_entropy(vectors @ softmax.weight.t() + softmax.bias, targets, reduction="none")
    found = softmax(vectors, targets)
    assert found.shape == (n_tokens,)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(gradients(found, *leaves), gradients(wanted, *leaves))
    with torch.no_grad():
        torch.testing.assert_close(softmax.nll(vectors, targets), wanted)


class TensorsMade(TorchDispatchMode):
    """Records the size of each tensor that an operation returns, and the tensor as long as it exists."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[int, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.made += [(leaf.numel(), ref(leaf)) for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        return result


def test_full_holds_scores_of_at_most_tokens_at_once_tokens_and_keeps_none_for_backward() -> None:
    n_tokens, vocab_size = 1000, 400
    softmax = FullSoftmax(vocab_size, P, tokens_at_once=10)
    vectors, targets = torch.randn(n_tokens, P, requires_grad=True), torch.randint(vocab_size, (n_tokens,))
    with TensorsMade() as tensors:
        loss = softmax(vectors, targets).sum()
        kept = sum(size for size, tensor in tensors.made if tensor() is not None)
        loss.backward()
    most = max(10 * vocab_size, vocab_size * P, n_tokens * P)  # scores, gradient of the weight, of the vectors
    assert max(size for size, _ in tensors.made) == most < n_tokens * vocab_size
    assert kept < vectors.numel() + 10 * n_tokens  # the chunks are views of the vectors


def test_it_is_initialized_as_in_bilm_tf_and_leaves_a_tied_table_unchanged() -> None:
    softmax = FullSoftmax(5000, 64)
    assert softmax.weight.mean().item() == pytest.approx(0, abs=1e-3)
    assert softmax.weight.std().item() == pytest.approx(1 / 8, rel=0.01)
    assert softmax.weight.shape == (5000, 64) and softmax.bias.shape == (5000,) and not softmax.bias.any()
    table = nn.Embedding(5001, 64, padding_idx=0)
    before = table.weight.detach().clone()
    softmax.tie(table)
    assert torch.equal(table.weight, before)


@pytest.mark.parametrize("softmax", every_softmax()[:2], ids=lambda softmax: type(softmax).__name__)
def test_a_tied_softmax_scores_with_the_rows_of_the_table_and_trains_all_but_the_padding(softmax: LmSoftmax) -> None:
    table = nn.Embedding(V + 1, P, padding_idx=0)
    softmax = lively(softmax)
    softmax.tie(table)
    vectors, targets = vectors_and_targets()
    wanted = F.cross_entropy(vectors @ table.weight[1:].t() + softmax.bias, targets, reduction="none")
    torch.testing.assert_close(softmax.nll(vectors, targets), wanted)
    softmax(vectors, targets).sum().backward()
    assert table.weight.grad is not None
    assert not table.weight.grad[0].any() and table.weight.grad[1 + targets].any(dim=1).all()
    torch.optim.Adagrad(nn.ModuleList([softmax, table]).parameters(), lr=0.1).step()
    assert softmax.weight is table.weight and not table.weight[0].any()


def test_adaptive_is_torchs_and_its_probabilities_of_all_words_add_up_to_one() -> None:
    softmax = AdaptiveSoftmax(V, P, CUTOFFS)
    vectors, targets = vectors_and_targets()
    with torch.no_grad():
        every = torch.stack([softmax.nll(vectors, torch.full((N,), word)) for word in range(V)], dim=1)  # (N, V)
        torch.testing.assert_close(every, -softmax.adaptive.log_prob(vectors))
        torch.testing.assert_close((-every).exp().sum(dim=1), torch.ones(N))
        wanted = every.gather(1, targets.unsqueeze(1)).squeeze(1)
        torch.testing.assert_close(softmax(vectors, targets), wanted)


def test_adaptives_modules_are_ours_and_keep_torchs_parameters_and_draw_no_random_numbers() -> None:
    torch.manual_seed(1)
    softmax = AdaptiveSoftmax(V, P, CUTOFFS)
    state = torch.get_rng_state()
    torch.manual_seed(1)
    torchs = nn.AdaptiveLogSoftmaxWithLoss(P, V, CUTOFFS)
    assert torch.equal(torch.get_rng_state(), state)
    linears = [part for part in softmax.modules() if isinstance(part, nn.Linear)]
    assert len(linears) == 5 and all(isinstance(part, Linear) for part in linears)
    torch.testing.assert_close(softmax.adaptive.state_dict(), torchs.state_dict(), rtol=0, atol=0)
    vectors, targets = vectors_and_targets()
    torch.testing.assert_close(softmax.nll(vectors, targets), -torchs(vectors, targets).output)


def test_a_cluster_whose_words_do_not_occur_gets_gradients_of_zero() -> None:
    """Processes that train together wait for a gradient of every weight."""
    softmax = AdaptiveSoftmax(V, P, CUTOFFS)
    vectors, _ = vectors_and_targets(3)
    softmax(vectors, torch.tensor([0, 1, CUTOFFS[0]])).sum().backward()
    found = {name: weight.grad for name, weight in softmax.named_parameters()}
    assert all(gradient is not None for gradient in found.values())
    unlearned = [name for name, gradient in found.items() if gradient is not None and not gradient.any()]
    assert unlearned == ["adaptive.tail.1.0.weight", "adaptive.tail.1.1.weight"]


def test_cutoffs_above_the_vocabulary_are_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"'softmax.cutoffs'.* 59, .*\["):
        AdaptiveSoftmax(V, P, [10, V])


@pytest.mark.parametrize("softmax", every_softmax(), ids=lambda softmax: type(softmax).__name__)
def test_under_autocast_losses_and_gradients_are_float32_and_near_those_without(softmax: LmSoftmax) -> None:
    softmax = lively(softmax)
    vectors, targets = vectors_and_targets()
    wanted = gradients(softmax.nll(vectors, targets), *softmax.parameters())
    with torch.autocast("cpu", torch.bfloat16):
        loss, nll = (compute(vectors.bfloat16(), targets) for compute in (softmax, softmax.nll))
    assert loss.dtype == nll.dtype == torch.float32 and loss.isfinite().all()
    torch.testing.assert_close(nll, softmax.nll(vectors, targets), atol=0.1, rtol=0.01)
    for found, exact in zip(gradients(nll, *softmax.parameters()), wanted, strict=True):
        assert found.dtype == torch.float32
        assert (found - exact).norm() < 0.02 * exact.norm()


def saved(softmax: LmSoftmax, **config: Any) -> LmSoftmax:
    """Build a softmax from its weights and its changed config, as from a file."""
    words = [str(row) for row in range(V)]
    weights = {name: value for name, value in softmax.state_dict().items() if name != "_extra_state"}
    return saved_softmax(SavedSoftmax({**softmax.config, **config}, weights), words, words, P)


@pytest.mark.parametrize("softmax", every_softmax(), ids=lambda softmax: type(softmax).__name__)
def test_a_saved_softmax_gives_the_same_losses(softmax: LmSoftmax) -> None:
    vectors, targets = vectors_and_targets()
    again = saved(softmax, vocab_size=V + 1, input_dim=2 * P)  # a file cannot change its sizes
    assert type(again) is type(softmax) and again.config == softmax.config
    torch.testing.assert_close(again.nll(vectors, targets), softmax.nll(vectors, targets))


@pytest.mark.parametrize(
    "config", [{"cutoffs": [10]}, {"div_value": 1e200}, {"type": "subprocess.run", "args": ["touch", "touched"]}]
)
def test_a_saved_config_that_does_not_fit_the_weights_or_names_another_class_is_an_error(
    config: dict[str, Any],
) -> None:
    with pytest.raises(ConfigurationError, match="'bilm'"):
        saved(AdaptiveSoftmax(V, P, CUTOFFS), **config)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"_pretrained": {"archive_file": "model.tar.gz", "module_path": ""}}, "got '_pretrained'"),
        ("a/path", "'softmax.scale': expected numbers alone"),
    ],
)
def test_a_saved_softmax_of_another_package_reads_no_file_that_its_config_names(
    value: object, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Scaled(FullSoftmax):
        def __init__(self, vocab_size: int, input_dim: int, scale: float = 1.0) -> None:
            super().__init__(vocab_size, input_dim)

        @property
        def config(self) -> dict[str, Any]:
            return {"type": "scaled", "scale": 1.0}

    monkeypatch.setitem(LmSoftmax._registry[LmSoftmax], "scaled", (Scaled, None))
    assert isinstance(saved(Scaled(V, P)), Scaled)
    with pytest.raises(ConfigurationError, match=expected):
        saved(Scaled(V, P), scale=value)
