"""A biLM is made of modules: hooks fire, weights may be recomputed, and `DataParallel` may replicate it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune, spectral_norm, weight_norm

from elmo_plugin import Elmo, batch_to_ids
from elmo_plugin.bilm import BiLM
from elmo_plugin.elmo import ScalarMix
from tests.oracles import SENTENCES, lively, options, reference_elmo, reference_layers

IDS = batch_to_ids(SENTENCES)
Wrap = Callable[[nn.Module, str], object]


def old_spectral_norm(module: nn.Module, name: str) -> None:
    """Apply the old `spectral_norm`, and estimate the norm as its first steps of training do."""
    spectral_norm(module, name, n_power_iterations=15)
    (hook,) = module._forward_pre_hooks.values()
    hook(module, ())


WRAPS: dict[str, Wrap] = {
    "prune": lambda module, name: prune.l1_unstructured(module, name, 0.3),
    "weight_norm": weight_norm,
    "spectral_norm": old_spectral_norm,
    "parametrizations.spectral_norm": parametrizations.spectral_norm,
}


def weigh(layers: Tensor) -> Tensor:
    return (layers * torch.randn(layers.shape, generator=torch.Generator().manual_seed(1))).mean()


def wrap(parts: list[tuple[nn.Module, str]], how: Wrap) -> None:
    torch.manual_seed(0)
    for module, name in parts:
        how(module, name)


def our_parts(bilm: BiLM) -> list[tuple[nn.Module, str]]:
    """Return a convolution, a highway layer, the projection, and a recurrent weight of each direction."""
    encoder, lstm = cast(Any, bilm.token_encoder), cast(Any, bilm.lstm)
    recurrent = [(lstm.forward_layers[0], "weight_hh"), (lstm.backward_layers[1], "weight_hh")]
    dense = [encoder.convolutions[1], encoder.highways._layers[0], encoder.projection]
    return [*((module, "weight") for module in dense), *recurrent]


def their_parts(elmo: Any) -> list[tuple[nn.Module, str]]:
    encoder, lstm = elmo._elmo_lstm._token_embedder, elmo._elmo_lstm._elmo_lstm
    cells = [lstm.forward_layers[0].state_linearity, lstm.backward_layers[1].state_linearity]
    dense = [encoder._convolutions[1], encoder._highways._layers[0], encoder._projection]
    return [(module, "weight") for module in [*dense, *cells]]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("how", WRAPS.values(), ids=WRAPS)
def test_recomputed_weights_train_as_in_allennlps_modules(how: Wrap, tmp_path: Path) -> None:
    bilm = lively(BiLM(options()))
    theirs: Any = reference_elmo(tmp_path, bilm, requires_grad=True)
    wrap(our_parts(bilm), how)
    wrap(their_parts(theirs), how)
    for model in (bilm, theirs):
        model.eval()  # in training, `spectral_norm` changes at every call, and AllenNLP calls at every time step
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (bilm, theirs._elmo_lstm)]
    for _ in range(3):
        found, wanted = bilm(IDS).layers, reference_layers(theirs, IDS)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-3)
        for layers, optimizer in zip((found, wanted), optimizers, strict=True):
            optimizer.zero_grad()
            weigh(layers).backward()
            optimizer.step()
    for (ours, name), (their, their_name) in zip(our_parts(bilm), their_parts(theirs), strict=True):
        torch.testing.assert_close(getattr(ours, name), getattr(their, their_name), rtol=0, atol=1e-3)
    with torch.no_grad():
        found, wanted = bilm.requires_grad_(False).eval()(IDS).layers, reference_layers(theirs.eval(), IDS)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-3)


def test_pruning_a_frozen_bilm_again_changes_its_vectors() -> None:
    bilm = lively(BiLM(options())).requires_grad_(False)
    for module, name in our_parts(bilm):
        prune.l1_unstructured(module, name, 0.1)
    bilm(IDS)
    for module, name in our_parts(bilm):
        prune.l1_unstructured(module, name, 0.5)
    found = bilm(IDS).layers
    for module, name in our_parts(bilm):
        prune.remove(module, name)
    torch.testing.assert_close(found, bilm(IDS).layers, rtol=0, atol=1e-6)


@pytest.mark.parametrize("frozen", [True, False])
def test_hooks_fire_in_every_run(frozen: bool) -> None:
    bilm = lively(BiLM(options())).requires_grad_(not frozen)
    bilm(IDS)  # fills the word cache
    calls: list[nn.Module] = []
    parts = [bilm.token_encoder, bilm.lstm, *(module for module, _ in our_parts(bilm))]
    for part in parts:
        part.register_forward_hook(lambda module, *_: calls.append(module))
    for _ in range(2):
        calls.clear()
        bilm(IDS)
        assert set(parts) <= set(calls)


def replicate(module: nn.Module) -> Any:
    """Replicate a module as `torch.nn.parallel.replicate` does, but on the CPU."""
    replicas: dict[nn.Module, Any] = {}
    for each in module.modules():
        replicas[each] = each._replicate_for_data_parallel()  # type: ignore[operator]
        replicas[each]._former_parameters = {}
    for each, replica in replicas.items():
        for name, child in each._modules.items():
            replica._modules[name] = None if child is None else replicas[child]
        for name, parameter in each._parameters.items():
            if parameter is None:
                replica._parameters[name] = None
            else:
                replica._former_parameters[name] = parameter.clone()
                setattr(replica, name, replica._former_parameters[name])
    return replicas[module]


@pytest.mark.parametrize("trained", [True, False])
def test_a_replica_of_data_parallel_equals_its_module(trained: bool) -> None:
    bilm = lively(BiLM(options())).requires_grad_(trained)
    elmo = Elmo.from_parts(bilm, [ScalarMix(3, 16)], dropout=0.0)
    wanted = elmo(IDS)["elmo_representations"][0]
    found = replicate(elmo)(IDS)["elmo_representations"][0]
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)
    for output in (wanted, found):
        output.square().sum().backward()
    weight = cast(Any, bilm.lstm).forward_layers[0].weight_hh
    assert (weight.grad is not None) is trained


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "export",
    [
        lambda elmo: torch.jit.trace(elmo, IDS),
        torch.jit.script,
        pytest.param(lambda elmo: torch.export.export(elmo, (IDS,), strict=False), marks=pytest.mark.slow),
    ],
    ids=["trace", "script", "export"],
)
def test_tracing_scripting_and_exporting_are_refused_in_one_line(export: Callable[[nn.Module], Any]) -> None:
    elmo = Elmo.from_parts(lively(BiLM(options())), [ScalarMix(3, 16)])
    with pytest.raises(ConfigurationError, match="cannot be traced, scripted or exported") as error:
        export(elmo)
    assert "\n" not in str(error.value)
