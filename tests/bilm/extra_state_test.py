"""Users average, cast and compare state dicts. The description of a module in its state dict survives that."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm import BiLM
from elmo_plugin.bilm.bilm import read_extra_state
from tests.language_model_oracles import language_model
from tests.oracles import lively, options
from tests.task_oracles import allennlp

State = dict[str, Tensor]


def each(combine: Callable[[list[Tensor]], Any]) -> Callable[[list[State]], State]:
    """Return a function that combines the values of several state dicts, name by name."""
    return lambda states: {name: combine([state[name] for state in states]) for name in states[0]}


def moving_average(values: list[Tensor]) -> Tensor:
    average = values[0].bfloat16()
    for _ in range(100):
        for value in values:
            average.mul_(0.9).add_(value.bfloat16(), alpha=0.1)
    return average


OPERATIONS: dict[str, Callable[[list[State]], State]] = {
    "mean": each(lambda values: torch.stack(values).mean(dim=0)),
    "moving average in bfloat16": each(moving_average),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_a_description_survives_operations_on_state_dicts(operation: Callable[[list[State]], State]) -> None:
    models = [lively(BiLM(options(), source="ünïcödé/weights.hdf5"), scale) for scale in (1.0, 0.5, 2.0, 1.1, 0.9)]
    state = operation([model.state_dict() for model in models])
    assert read_extra_state(state["_extra_state"]) == (models[0].options, "ünïcödé/weights.hdf5")
    BiLM(options()).load_state_dict(state, strict=True)


def test_the_mean_of_different_descriptions_is_an_error_that_says_so() -> None:
    """Descriptions of equal length, where the mean of 1 and 3 would be a valid 2."""
    states = [BiLM(options(), source=f"runs/{name}").state_dict() for name in ("1", "3")]
    mean = OPERATIONS["mean"](states)
    with pytest.raises(ConfigurationError, match=r"_extra_state.*differ"):
        BiLM(options()).load_state_dict(mean)


@pytest.mark.slow
def test_allennlp_diff_compares_two_checkpoints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = language_model(softmax={"type": "sampled", "n_samples": 4})
    torch.save(model.state_dict(), tmp_path / "one.th")
    with torch.no_grad():
        model.bilm.lstm.forward_layers[0].bias.add_(1.0)
    torch.save(model.state_dict(), tmp_path / "other.th")
    allennlp("diff", tmp_path / "one.th", tmp_path / "other.th")
    changed = [line for line in capsys.readouterr().out.splitlines() if "distance" in line]
    assert len(changed) == 1 and "forward_layers.0.bias" in changed[0] and "distance = 1.0000" in changed[0]
