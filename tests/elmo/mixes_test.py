from typing import Optional

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.modules.scalar_mix import ScalarMix as AllenNlpMix
from torch import Tensor

from elmo_plugin.elmo import LayerMix, LearnedFunctionMix, ScalarMix

L, B, T, D = 3, 4, 5, 6
MASK = torch.arange(T) < torch.tensor([5, 2, 1, 3]).unsqueeze(1)  # (B, T)
WEIGHTS = [0.3, -1.2, 2.0]


def random_layers(scale: float = 1.0) -> Tensor:
    """Layers with different means and standard deviations."""
    values = torch.randn(L, B, T, D, generator=torch.Generator().manual_seed(7))
    spreads, means = torch.tensor([[0.5, 1.0, 3.0], [4.0, 0.0, -1.0]]).view(2, L, 1, 1, 1)
    return values * spreads * scale + means


def build(**params: object) -> LayerMix:
    return LayerMix.from_params(Params(params), num_elmo_layers=L, layer_dim=D)


def test_mixes_without_parameters() -> None:
    first, second, third = layers = random_layers()
    torch.testing.assert_close(build(type="average")(layers, MASK), (first + second + third) / 3)
    assert torch.equal(build(type="last")(layers, MASK), third)
    side_by_side = build(type="concatenate")
    assert torch.equal(side_by_side(layers, MASK), torch.cat([first, second, third], dim=-1))
    assert [build(type=kind).get_output_dim() for kind in ("average", "last", "concatenate")] == [D, D, L * D]


def test_learned_function_is_a_feed_forward_network_over_all_layers_of_a_token() -> None:
    layers = random_layers()
    mix = build(type="learned_function", hidden_dim=5)
    assert isinstance(mix, LearnedFunctionMix) and mix.get_output_dim() == D
    inner, _, outer = mix.function
    wanted = torch.zeros(B, T, D)
    for b, t in MASK.nonzero().tolist():
        token = torch.cat([layers[0, b, t], layers[1, b, t], layers[2, b, t]])  # (L · D,)
        hidden = (inner.weight @ token + inner.bias).clamp(min=0)  # (5,)
        wanted[b, t] = outer.weight @ hidden + outer.bias
    torch.testing.assert_close(mix(layers, MASK), wanted)
    shapes = [tuple(weight.shape) for weight in build(type="learned_function").parameters()]
    assert shapes == [(D, L * D), (D,), (D, D), (D,)]


def both(do_layer_norm: bool, weights: Optional[list[float]] = None) -> tuple[ScalarMix, AllenNlpMix]:
    """The same mix of ours and of AllenNLP, whose state dict ours reads."""
    theirs = AllenNlpMix(L, do_layer_norm=do_layer_norm, initial_scalar_parameters=weights)
    torch.nn.init.constant_(theirs.gamma, 0.7)
    ours = ScalarMix(L, D, do_layer_norm=do_layer_norm)
    ours.load_state_dict(theirs.state_dict())
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


def test_with_layer_norm_a_sentence_equals_allennlps_batch_of_one_in_any_batch() -> None:
    ours, theirs = both(True, WEIGHTS)
    layers = random_layers()
    together = ours(torch.where(MASK[None, :, :, None], layers, 1e3), MASK)  # (B, T, D); padding has no effect
    for row in range(B):
        one, mask = layers[:, row : row + 1], MASK[row : row + 1]
        live = mask.unsqueeze(-1)
        torch.testing.assert_close(together[row : row + 1], theirs(list(one), mask) * live, atol=1e-5, rtol=0)
        for found, wanted in zip(gradients(ours, one, mask), gradients(theirs, one, mask), strict=True):
            torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-5)
    assert (together - theirs(list(layers), MASK))[MASK].abs().max() > 0.1  # AllenNLP's do differ from batch to batch


def test_with_layer_norm_a_sentence_without_tokens_or_without_spread_is_zero_and_not_nan() -> None:
    mask = torch.tensor([[False] * T, [True] * T])
    leaf = torch.full((L, 2, T, D), 2.0, requires_grad=True)
    values = ScalarMix(L, D, do_layer_norm=True)(leaf, mask)
    values.sum().backward()
    assert not values.any() and leaf.grad is not None and leaf.grad.isfinite().all()


def test_layer_norm_of_a_long_sentence_in_16_bits_is_close_to_float32() -> None:
    """The sum of squares exceeds float16."""
    layers = 20 * torch.randn(2, 1, 400, 64, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(1, 400, dtype=torch.bool)
    mix = ScalarMix(2, 64, do_layer_norm=True)
    wanted = mix(layers, mask)
    found = mix.half()(layers.half(), mask)
    assert found.dtype == torch.float16
    torch.testing.assert_close(found.float(), wanted, rtol=0, atol=0.05)


@pytest.mark.parametrize("trainable", [True, False])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_initial_parameters_and_trainable_are_independent(weights: Optional[list[float]], trainable: bool) -> None:
    mix = ScalarMix(L, D, initial_scalar_parameters=weights, trainable=trainable)
    assert mix.scalar_parameters.tolist() == pytest.approx(weights or [0.0] * L) and mix.gamma.item() == 1.0
    trained = {name: parameter.requires_grad for name, parameter in mix.named_parameters()}
    assert trained == {"scalar_parameters": trainable, "gamma": trainable}


def test_the_wrong_number_of_weights_is_an_error_and_allennlps_recipe_for_one_layer_works() -> None:
    for weights in ([], [1.0, 2.0], [0.0] * 4):
        with pytest.raises(ConfigurationError, match=f"'initial_scalar_parameters': .*3.* {len(weights)}"):
            ScalarMix(L, D, initial_scalar_parameters=weights)
    layers = random_layers()
    assert torch.equal(ScalarMix(L, D, [-9e10, 1, -9e10])(layers, MASK), layers[1])


def test_frozen_random_normalizes_no_layer_unless_it_is_told_to() -> None:
    layers = 10 * random_layers() + 3
    mix = build(type="frozen_random", seed=1)
    assert isinstance(mix, ScalarMix) and not mix.do_layer_norm
    weights = torch.stack([*mix.scalar_parameters]).softmax(dim=0).view(L, 1, 1, 1)
    torch.testing.assert_close(mix(layers, MASK), (weights * layers).sum(dim=0))


def test_frozen_random_depends_only_on_its_seed_and_is_not_trained() -> None:
    before = torch.get_rng_state()
    one, same, other = (ScalarMix.frozen_random(L, D, seed=seed, do_layer_norm=True) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(one.scalar_parameters, same.scalar_parameters)
    assert not torch.equal(one.scalar_parameters, other.scalar_parameters)
    assert not any(parameter.requires_grad for parameter in one.parameters()) and one.do_layer_norm
