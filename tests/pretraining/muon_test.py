"""The optimizer `muon`, against PyTorch's own Muon and AdamW, one for each set of weights."""

import math
from pathlib import Path

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.training.optimizers import Optimizer
from torch import nn

from elmo_plugin.pretraining.optimization import COEFFICIENTS, STEPS, nearest_orthogonal

NEEDS_MUON = pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="needs PyTorch 2.9 or newer")
RATE, ADAMW_RATE = 0.01, 0.004


class Weights(nn.Module):
    """A matrix that Muon trains, and a table and a bias that it does not, with the names that a language model has."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        lstm = nn.ParameterDict({"weight": torch.randn(8, 4, generator=generator), "bias": torch.ones(8)})
        softmax = nn.ParameterDict({"weight": torch.randn(9, 4, generator=generator)})
        self.bilm = nn.ModuleDict({"lstm": lstm, "softmax": softmax})


def muon(of: nn.Module, **keys: object) -> Optimizer:
    """Build the optimizer from a config, as the trainer does."""
    config = Params({"type": "muon", "lr": RATE, "adamw_lr": ADAMW_RATE, **keys})
    return Optimizer.from_params(config, model_parameters=list(of.named_parameters()))


def five_steps(weights: nn.Module, optimizers: list[torch.optim.Optimizer]) -> None:
    """Take steps with gradients that depend only on the step."""
    for step in range(5):
        generator = torch.Generator().manual_seed(step)
        for weight in weights.parameters():
            weight.grad = torch.randn(weight.shape, generator=generator)
        for optimizer in optimizers:
            optimizer.step()


def of_torch(weights: Weights) -> list[torch.optim.Optimizer]:
    """PyTorch's optimizers, each for the weights that it should train."""
    lstm, softmax = weights.bilm["lstm"], weights.bilm["softmax"]
    return [
        torch.optim.Muon([lstm["weight"]], lr=RATE, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW([lstm["bias"], softmax["weight"]], lr=ADAMW_RATE, betas=(0.9, 0.98)),
    ]


@NEEDS_MUON
def test_muon_trains_the_matrices_of_hidden_layers_and_adamw_all_other_weights() -> None:
    weights, reference = Weights(), Weights()
    five_steps(weights, [muon(weights)])
    five_steps(reference, of_torch(reference))
    lstm, others = weights.bilm["lstm"], reference.bilm["lstm"]
    assert (lstm["weight"] - others["weight"]).norm() < 1e-2 * (
        others["weight"] - Weights().bilm["lstm"]["weight"]
    ).norm()
    assert torch.equal(lstm["bias"], others["bias"])
    assert torch.equal(weights.bilm["softmax"]["weight"], reference.bilm["softmax"]["weight"])


def test_a_state_restores_both_optimizers(tmp_path: Path) -> None:
    weights, again = Weights(), Weights()
    optimizer, resumed = muon(weights), muon(again)
    five_steps(weights, [optimizer])
    torch.save(optimizer.state_dict(), tmp_path / "state")
    resumed.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    again.load_state_dict(weights.state_dict())
    for each, its_optimizer in ((weights, optimizer), (again, resumed)):
        five_steps(each, [its_optimizer])
    for found, wanted in zip(again.parameters(), weights.parameters(), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("shape", [(64, 8), (8, 64), (16, 16)])
@pytest.mark.parametrize("condition", [1, 1e2, 1e4])
def test_float32_is_as_precise_as_iterating_the_matrix_itself(shape: tuple[int, int], condition: float) -> None:
    u, _, vt = torch.linalg.svd(torch.randn(shape, generator=torch.Generator().manual_seed(5)).double(), False)
    matrix = u @ torch.logspace(0, -math.log10(condition), len(vt)).double().diag() @ vt
    a, b, c = COEFFICIENTS
    wanted = matrix / matrix.norm()
    for _ in range(STEPS):
        gram = wanted @ wanted.T
        wanted = a * wanted + b * gram @ wanted + c * gram @ gram @ wanted
    found = nearest_orthogonal(matrix.float())
    assert found.dtype == torch.float32
    assert (found - wanted).norm() < 1e-3 * wanted.norm()


@pytest.mark.parametrize("betas", [[0.9], [], [0.9, 0.98, 0.99], [0.9, -1]])
def test_other_than_two_coefficients_are_rejected(betas: list[float]) -> None:
    with pytest.raises(ConfigurationError, match="'betas"):
        muon(Weights(), betas=betas)


@pytest.mark.parametrize(("matrices", "what"), [([r"\.encoder\."], "no matrix"), (["."], "all")])
def test_patterns_that_match_all_or_no_weights_are_rejected(matrices: list[str], what: str) -> None:
    weights = nn.ModuleDict({"bilm": nn.Linear(3, 2, bias=False)})
    with pytest.raises(ConfigurationError, match=f"'matrices'.*{what}"):
        muon(weights, matrices=matrices)
