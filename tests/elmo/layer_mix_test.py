import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from torch import Tensor, nn

from elmo_plugin.elmo import AverageMix, ConcatenateMix, LastMix, LayerMix, LearnedFunctionMix, ScalarMix

L, B, T, D = 3, 2, 4, 6
MASK = torch.tensor([[True, True, True, True], [True, True, False, False]])


def random_layers() -> Tensor:
    return torch.randn(L, B, T, D, generator=torch.Generator().manual_seed(1))


def build(**params: object) -> LayerMix:
    return LayerMix.from_params(Params(params), num_elmo_layers=L, layer_dim=D)


def test_average_is_the_mean_of_all_layers() -> None:
    first, second, third = layers = random_layers()
    mix = build(type="average")
    assert isinstance(mix, AverageMix) and mix.get_output_dim() == D
    torch.testing.assert_close(mix(layers, MASK), (first + second + third) / 3)


def test_last_is_the_top_layer() -> None:
    layers = random_layers()
    mix = build(type="last")
    assert isinstance(mix, LastMix) and mix.get_output_dim() == D
    assert torch.equal(mix(layers, MASK), layers[2])


def test_concatenate_puts_the_layers_side_by_side_the_token_layer_first() -> None:
    first, second, third = layers = random_layers()
    mix = build(type="concatenate")
    assert isinstance(mix, ConcatenateMix) and mix.get_output_dim() == L * D
    assert torch.equal(mix(layers, MASK), torch.cat([first, second, third], dim=-1))


def test_learned_function_is_a_feed_forward_network_over_all_layers_of_a_token() -> None:
    layers = random_layers()
    mix = build(type="learned_function", hidden_dim=5)
    assert isinstance(mix, LearnedFunctionMix) and mix.get_output_dim() == D
    inner, _, outer = mix.function
    assert isinstance(inner, nn.Linear) and isinstance(outer, nn.Linear)
    wanted = torch.zeros(B, T, D)
    for b, t in MASK.nonzero().tolist():
        token = torch.cat([layers[0, b, t], layers[1, b, t], layers[2, b, t]])  # (L · D,)
        hidden = (inner.weight @ token + inner.bias).clamp(min=0)  # (5,)
        wanted[b, t] = outer.weight @ hidden + outer.bias
    torch.testing.assert_close(mix(layers, MASK), wanted)


def test_learned_function_is_zero_where_there_is_no_token_though_its_biases_are_not() -> None:
    values = build(type="learned_function")(torch.zeros(L, B, T, D), MASK)
    assert not values[~MASK].any() and values[MASK].any()


def test_learned_function_is_trained_and_its_hidden_width_is_d_by_default() -> None:
    mix = build(type="learned_function")
    assert [tuple(weight.shape) for weight in mix.parameters()] == [(D, L * D), (D,), (D, D), (D,)]
    mix(random_layers(), MASK).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in mix.parameters())


@pytest.mark.parametrize("kind", ["average", "last", "concatenate", "frozen_random"])
def test_these_mixes_have_no_trained_parameters(kind: str) -> None:
    assert not [parameter for parameter in build(type=kind).parameters() if parameter.requires_grad]


def test_scalar_is_the_default() -> None:
    assert type(build()) is ScalarMix


def test_an_unknown_mix_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigurationError, match=r"sclar not in acceptable choices.*'scalar'"):
        build(type="sclar")


def test_num_layers_is_the_old_name_of_num_elmo_layers() -> None:
    with pytest.warns(DeprecationWarning, match="num_elmo_layers"):
        mix = LayerMix.from_params(Params({"type": "average", "num_layers": L, "layer_dim": D}))
    assert mix.num_elmo_layers == L
