"""What people do to state dicts: average, cast and compare them. What a module says of itself survives it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor, nn

from elmo_plugin.bilm import BiLM
from elmo_plugin.bilm.bilm import read_extra_state
from elmo_plugin.checkpoints import archived_checkpoint
from elmo_plugin.pretraining.sampled_softmax import SampledSoftmax
from tests.language_model_oracles import language_model
from tests.oracles import lively, options
from tests.task_oracles import allennlp

State = dict[str, Tensor]


def as_uint8(description: Any) -> Tensor:
    """A description as earlier versions kept it."""
    return torch.tensor(list(json.dumps(description).encode()), dtype=torch.uint8)


def moving_average(states: list[State], dtype: torch.dtype) -> State:
    average = {name: value.to(dtype) for name, value in states[0].items()}
    for _ in range(100):
        for state in states:
            for name, value in average.items():
                value.mul_(0.9).add_(state[name].to(dtype), alpha=0.1)
    return average


def in_type(dtype: torch.dtype) -> Callable[[list[State]], State]:
    return lambda states: {name: value.to(dtype) for name, value in states[0].items()}


OPERATIONS: dict[str, Callable[[list[State]], State]] = {
    "mean": lambda states: {name: torch.stack([s[name] for s in states]).mean(dim=0) for name in states[0]},
    "sum of parts": lambda states: {name: sum(s[name] / len(states) for s in states) for name in states[0]},  # type: ignore[misc]
    "sum of bfloat16": lambda states: {
        name: sum(s[name].bfloat16() for s in states) / len(states)
        for name in states[0]  # type: ignore[misc]
    },
    "moving average": lambda states: moving_average(states, torch.float32),
    "moving average in bfloat16": lambda states: moving_average(states, torch.bfloat16),
    "interpolation": lambda states: {name: value.lerp(states[1][name], 0.3) for name, value in states[0].items()},
    "difference": lambda states: {
        name: states[1][name] + (value - states[1][name]) for name, value in states[0].items()
    },
    "half": in_type(torch.float16),
    "bfloat16": in_type(torch.bfloat16),
    "double": in_type(torch.float64),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_a_description_survives_what_is_done_to_weights(operation: Callable[[list[State]], State]) -> None:
    models = [lively(BiLM(options(), source="ünïcödé/weights.hdf5"), scale) for scale in (1.0, 0.5, 2.0, 1.1, 0.9)]
    state = operation([model.state_dict() for model in models])
    assert read_extra_state(state["_extra_state"]) == (models[0].options, "ünïcödé/weights.hdf5")
    BiLM(options()).load_state_dict(state, strict=True)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_a_language_model_survives_it(operation: Callable[[list[State]], State], tmp_path: Path) -> None:
    softmax = {"type": "sampled", "n_samples": 4}
    models = [language_model(softmax=softmax) for _ in range(5)]
    for model in models:
        assert isinstance(model.softmax, SampledSoftmax)
        model.softmax.draw()
    state = operation([model.state_dict() for model in models])
    models[0].load_state_dict(state, strict=True)
    assert isinstance(models[0].softmax, SampledSoftmax) and int(models[0].softmax.n_draws) == 1
    torch.save(state, tmp_path / "weights.th")
    checkpoint = archived_checkpoint(str(tmp_path), "random:1", "weights.th")
    assert checkpoint is not None and checkpoint.softmax is not None
    assert checkpoint.softmax.config == models[0].softmax.config


def test_the_mean_of_different_descriptions_is_an_error_that_says_so() -> None:
    """Those of equal length, where 1 and 3 would make 2."""
    states = [BiLM(options(), source=f"runs/{name}").state_dict() for name in ("1", "3")]
    mean = OPERATIONS["mean"](states)
    with pytest.raises(ConfigurationError, match=r"_extra_state.*differ"):
        BiLM(options()).load_state_dict(mean)


def test_the_mean_of_different_archives_names_file_and_key(tmp_path: Path) -> None:
    states = [nn.ModuleDict({"bilm": BiLM(options(), source=name)}).state_dict() for name in ("1", "3")]
    torch.save(OPERATIONS["mean"](states), tmp_path / "weights.th")
    with pytest.raises(ConfigurationError, match=r"weights\.th', 'bilm._extra_state': .*differ"):
        archived_checkpoint(str(tmp_path), "2", "weights.th")


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.bfloat16])
def test_the_bytes_of_earlier_versions_are_read(dtype: torch.dtype) -> None:
    bilm = BiLM(options(), source="old")
    state = as_uint8({"options": bilm.options.to_dict(), "source": "old"}).to(dtype)
    assert read_extra_state(state) == (bilm.options, "old")
    bilm.load_state_dict({**bilm.state_dict(), "_extra_state": state})


@pytest.mark.parametrize(
    "state",
    [
        torch.tensor([float("nan")]),
        torch.tensor([-1.0]),
        torch.zeros(5),
        torch.zeros(8),
        torch.zeros(0),
        torch.tensor(1e9),
    ],
)
def test_numbers_that_describe_nothing_are_an_error(state: Tensor) -> None:
    bilm = BiLM(options())
    with pytest.raises(ConfigurationError, match="_extra_state"):
        bilm.load_state_dict({**bilm.state_dict(), "_extra_state": state})


@pytest.mark.parametrize("softmax", ["full", "sampled"])
def test_allennlp_diff_compares_two_checkpoints(
    softmax: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = {"full": {}, "sampled": {"n_samples": 4}}[softmax]
    model = language_model(softmax={"type": softmax, **keys})
    torch.save(model.state_dict(), tmp_path / "one.th")
    with torch.no_grad():
        model.bilm.lstm.forward_layers[0].bias.add_(1.0)
    torch.save(model.state_dict(), tmp_path / "other.th")
    allennlp("diff", tmp_path / "one.th", tmp_path / "other.th")
    changed = [line for line in capsys.readouterr().out.splitlines() if "distance" in line]
    assert len(changed) == 1 and "forward_layers.0.bias" in changed[0] and "distance = 1.0000" in changed[0]
