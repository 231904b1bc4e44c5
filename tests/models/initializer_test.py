"""A model's `initializer` and its biLM: regexes for the task's own layers leave loaded weights as they are."""

import logging
from pathlib import Path

import pytest
import torch
from allennlp.models import Model
from torch import Tensor

from elmo_plugin.compat import models, training
from tests.models.configs import ELMO, ELMO_ONLY, stock_tagger
from tests.task_oracles import (
    TOWNS,
    Config,
    bilm_files,
    build_model,
    experiment,
    tags_reader,
    train,
)

REGEXES = [
    [".*weight_ih.*", {"type": "xavier_uniform"}],
    [".*weight_hh.*", {"type": "orthogonal"}],
    [".*projection.*weight", {"type": "xavier_uniform"}],
    [".*bias.*", {"type": "zero"}],
]
"""What the configs `esim_elmo` and `dependency_parser` of allennlp-models have for their own layers."""
OF_BILM = ".bilm."


def weights(model: Model) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the parameters of the biLM, and those of the rest of the model."""
    named = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    return {n: p for n, p in named.items() if OF_BILM in n}, {n: p for n, p in named.items() if OF_BILM not in n}


def build(model: Config, regexes: list[list[object]]) -> Model:
    config = experiment({**model, "initializer": {"regexes": regexes}}, tags_reader(), TOWNS)
    return build_model(config)[0]


def test_regexes_of_the_tasks_layers_leave_the_bilm_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = stock_tagger(elmo=bilm_files(tmp_path))
    bilm, task = weights(build(config, []))
    with caplog.at_level(logging.WARNING):
        kept, initialized = weights(build(config, REGEXES))
    assert bilm.keys() and all(torch.equal(kept[name], bilm[name]) for name in bilm)
    changed = {name for name in task if not torch.equal(initialized[name], task[name])}
    assert {name for name in task if "weight_ih" in name or "weight_hh" in name} <= changed
    (warning,) = (message for message in caplog.messages if ".*weight_hh.*" in message)
    assert "4 parameters of a biLM" in warning and "weight_hh" in warning


def test_regexes_that_match_no_trained_parameter_are_warned_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []  # AllenNLP's training takes pytest's log handlers away
    for module in (models, training):
        monkeypatch.setattr(module.logger, "warning", lambda text, *values: said.append(text % values))
    penalty = {"type": "l2", "alpha": 1.0}
    regexes = [[name, penalty] for name in ("scalar_mix_0", "mixes.0", "bilm", "encoder")]
    model = {**stock_tagger(elmo=ELMO), "regularizer": {"regexes": regexes}}
    reader = tags_reader(token_indexers=ELMO_ONLY)
    train(experiment(model, reader, TOWNS, num_epochs=1, no_grad=["_elmo_lstm", "gamma", "bilm"]), tmp_path / "run")
    assert said == [
        "'regularizer': the regex 'mixes.0' matches no parameter that is trained",
        "'regularizer': the regex 'bilm' matches no parameter that is trained",
        "'no_grad': the regex '_elmo_lstm' matches no parameter",
    ]
