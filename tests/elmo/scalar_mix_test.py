from typing import Any, Optional

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.scalar_mix import ScalarMix as AllenNlpMix
from allennlp.nn.regularizers import L2Regularizer, RegularizerApplicator
from torch import Tensor

from elmo_plugin.elmo import ScalarMix

L, B, T, D = 3, 4, 5, 6
MASK = torch.arange(T) < torch.tensor([5, 2, 1, 3]).unsqueeze(1)  # (B, T)
WEIGHTS = [0.3, -1.2, 2.0]


def random_layers(batch: int = B, scale: float = 1.0) -> Tensor:
    """Layers with different means and standard deviations."""
    values = torch.randn(L, batch, T, D, generator=torch.Generator().manual_seed(7))
    spreads, means = torch.tensor([[0.5, 1.0, 3.0], [4.0, 0.0, -1.0]]).view(2, L, 1, 1, 1)
    return values * spreads * scale + means


def both(do_layer_norm: bool, weights: Optional[list[float]] = None) -> tuple[ScalarMix, AllenNlpMix]:
    ours = ScalarMix(L, D, initial_scalar_parameters=weights, do_layer_norm=do_layer_norm)
    theirs = AllenNlpMix(L, do_layer_norm=do_layer_norm, initial_scalar_parameters=weights)
    for mix in (ours, theirs):
        torch.nn.init.constant_(mix.gamma, 0.7)
    return ours, theirs


def gradients(mix: torch.nn.Module, layers: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the layers, w and γ, for a loss that weighs every unmasked number differently."""
    leaf = layers.clone().requires_grad_()
    values = mix(leaf if isinstance(mix, ScalarMix) else list(leaf), mask) * mask.unsqueeze(-1)
    (values * torch.linspace(-1, 2, values.numel()).view_as(values)).sum().backward()
    parameters = mix.scalar_parameters
    weights = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    assert leaf.grad is not None
    return leaf.grad, torch.cat([weight.grad for weight in weights]), mix.gamma.grad


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_without_layer_norm_it_equals_allennlps_mix_in_any_batch(weights: Optional[list[float]]) -> None:
    ours, theirs = both(False, weights)
    layers = random_layers()
    torch.testing.assert_close(ours(layers, MASK), theirs(list(layers), MASK))
    for found, wanted in zip(gradients(ours, layers, MASK), gradients(theirs, layers, MASK), strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("sentence", range(B))
def test_with_layer_norm_a_batch_of_one_equals_allennlps(sentence: int) -> None:
    ours, theirs = both(True, WEIGHTS)
    layers, mask = random_layers()[:, sentence : sentence + 1], MASK[sentence : sentence + 1]
    live = mask.unsqueeze(-1)
    torch.testing.assert_close(ours(layers, mask) * live, theirs(list(layers), mask) * live, atol=1e-5, rtol=0)
    for found, wanted in zip(gradients(ours, layers, mask), gradients(theirs, layers, mask), strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-5)


def test_with_layer_norm_a_sentence_is_the_same_in_any_batch() -> None:
    ours, theirs = both(True, WEIGHTS)
    layers = random_layers()
    together = ours(layers, MASK)  # (B, T, D)
    for sentence, length in enumerate(MASK.sum(dim=1).tolist()):
        alone = ours(layers[:, sentence : sentence + 1, :length], MASK[sentence : sentence + 1, :length])
        torch.testing.assert_close(together[sentence, :length], alone[0], atol=1e-6, rtol=0)
    assert (together - theirs(list(layers), MASK))[MASK].abs().max() > 0.1  # AllenNLP's do differ from batch to batch


def test_with_layer_norm_masked_tokens_have_no_effect_and_become_zero() -> None:
    mix = ScalarMix(L, D, do_layer_norm=True)
    layers = random_layers()
    noisy = torch.where(MASK[None, :, :, None], layers, 1e3)
    values = mix(noisy, MASK)
    torch.testing.assert_close(values, mix(layers, MASK))
    assert not values[~MASK].any()


def test_with_layer_norm_a_sentence_without_tokens_or_without_spread_is_zero_and_not_nan() -> None:
    mask = torch.tensor([[False] * T, [True] * T])
    leaf = torch.full((L, 2, T, D), 2.0, requires_grad=True)
    values = ScalarMix(L, D, do_layer_norm=True)(leaf, mask)
    values.sum().backward()
    assert not values.any() and leaf.grad is not None and leaf.grad.isfinite().all()


@pytest.mark.parametrize("trainable", [True, False])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_initial_parameters_and_trainable_are_independent(weights: Optional[list[float]], trainable: bool) -> None:
    mix = ScalarMix(L, D, initial_scalar_parameters=weights, trainable=trainable)
    assert mix.scalar_parameters.tolist() == pytest.approx(weights or [0.0] * L)
    assert mix.gamma.item() == 1.0
    assert {name: parameter.requires_grad for name, parameter in mix.named_parameters()} == {
        "scalar_parameters": trainable,
        "gamma": trainable,
    }


@pytest.mark.parametrize("weights", [[], [1.0, 2.0], [0.0] * 4])
def test_the_wrong_number_of_weights_is_an_error(weights: list[float]) -> None:
    with pytest.raises(ConfigurationError, match=f"'initial_scalar_parameters': .*3.* {len(weights)}"):
        ScalarMix(L, D, initial_scalar_parameters=weights)


def test_allennlps_recipe_for_a_single_layer_works() -> None:
    layers = random_layers()
    mix = ScalarMix(L, D, initial_scalar_parameters=[-9e10, 1, -9e10])
    assert torch.equal(mix(layers, MASK), layers[1])


def test_frozen_random_depends_only_on_its_seed_and_is_not_trained() -> None:
    before = torch.get_rng_state()
    one, same, other = (ScalarMix.frozen_random(L, D, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(one.scalar_parameters, same.scalar_parameters)
    assert not torch.equal(one.scalar_parameters, other.scalar_parameters)
    assert not any(parameter.requires_grad for parameter in one.parameters())
    assert torch.equal(one(random_layers(), MASK), same(random_layers(), MASK))


def test_frozen_random_draws_from_the_standard_normal() -> None:
    drawn = torch.stack([ScalarMix.frozen_random(L, D, seed=seed).scalar_parameters for seed in range(400)])  # (400, L)
    assert drawn.mean().item() == pytest.approx(0.0, abs=0.1) and drawn.std().item() == pytest.approx(1.0, abs=0.1)


def test_frozen_random_takes_layer_norm_as_scalar_does() -> None:
    mix = ScalarMix.frozen_random(L, D, seed=3, do_layer_norm=True)
    same = ScalarMix(L, D, mix.scalar_parameters.tolist(), do_layer_norm=True)
    assert torch.equal(mix(random_layers(), MASK), same(random_layers(), MASK))


def step(regularizer: RegularizerApplicator, weights: list[float]) -> tuple[float, Tensor]:
    """The penalty of a mix, and its weights after one training step."""
    mix = ScalarMix(L, D, initial_scalar_parameters=weights)
    optimizer = torch.optim.SGD(mix.parameters(), lr=0.1)
    penalty = regularizer(mix)
    (mix(random_layers(scale=1e-3), MASK).square().mean() + penalty).backward()
    optimizer.step()
    return torch.as_tensor(penalty).item(), mix.scalar_parameters.detach()


def test_the_papers_lambda_is_an_l2_regularizer_that_reaches_the_weights_by_their_name() -> None:
    regexes: Any = [("scalar_parameters", L2Regularizer(alpha=2.0))]
    penalty, pulled = step(RegularizerApplicator(regexes), WEIGHTS)
    free_penalty, free = step(RegularizerApplicator([]), WEIGHTS)
    assert penalty == pytest.approx(2.0 * sum(weight**2 for weight in WEIGHTS)) and free_penalty == 0.0
    # The gradient of α Σ w² is 2 α w, so a step of 0.1 takes 0.4 of each weight away.
    torch.testing.assert_close(free - pulled, torch.tensor(WEIGHTS) * 0.4, atol=1e-5, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_layer_norm_of_a_long_sentence_in_16_bits_is_close_to_float32(dtype: torch.dtype) -> None:
    """The sum of squares exceeds float16."""
    layers = 20 * torch.randn(2, 1, 400, 64, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(1, 400, dtype=torch.bool)
    mix = ScalarMix(2, 64, do_layer_norm=True)
    wanted = mix(layers, mask)
    found = mix.to(dtype)(layers.to(dtype), mask)
    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), wanted, rtol=0, atol=0.05)


def test_layer_norm_equals_allennlps_with_the_boundaries_and_bilm_tfs_without() -> None:
    layers = torch.randn(3, 1, 6, 8, generator=torch.Generator().manual_seed(0))  # with <S> and </S>
    mask = torch.ones(1, 6, dtype=torch.bool)
    ours = ScalarMix(3, 8, do_layer_norm=True)
    torch.testing.assert_close(ours(layers, mask), AllenNlpMix(3, do_layer_norm=True)(list(layers), mask))
    inner = layers[:, :, 1:-1]
    centred = inner - inner.mean(dim=(2, 3), keepdim=True)
    bilm_tfs = (centred / centred.square().mean(dim=(2, 3), keepdim=True).sqrt()).mean(dim=0)  # `weight_layers`
    torch.testing.assert_close(ours(inner, mask[:, 1:-1]), bilm_tfs)
    assert (ours(layers, mask)[:, 1:-1] - bilm_tfs).abs().max() > 0.01
