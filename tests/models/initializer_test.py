"""A model's `initializer` and its biLM: regexes for the task's own layers leave loaded weights as they are."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.models import Model
from torch import Tensor

from elmo_plugin.compat import initializers
from tests.models.configs import ELMO, stock_tagger
from tests.task_oracles import (
    TOWNS,
    Config,
    D,
    bilm_files,
    build_model,
    experiment,
    lstm,
    tagger,
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


def build(model: Config, regexes: list[list[object]], prevent: tuple[str, ...] = ()) -> Model:
    initializer = {"regexes": regexes, "prevent_regexes": [*prevent]}
    config = experiment({**model, "initializer": initializer}, tags_reader(), TOWNS)
    return build_model(config)[0]


@pytest.mark.parametrize(("kind", "requires_grad"), [("AllenNLP's tagger", False), ("elmo_tagger", True)])
def test_regexes_of_the_tasks_layers_leave_the_bilm_alone(
    kind: str, requires_grad: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    elmo = {**bilm_files(tmp_path), "requires_grad": requires_grad}
    config = stock_tagger(elmo=elmo) if kind.startswith("AllenNLP") else tagger(elmo)
    bilm, task = weights(build(config, []))
    with caplog.at_level(logging.WARNING):
        kept, initialized = weights(build(config, REGEXES))
    assert bilm.keys() and all(torch.equal(kept[name], bilm[name]) for name in bilm)
    changed = {name for name in task if not torch.equal(initialized[name], task[name])}
    assert {name for name in task if "weight_ih" in name or "weight_hh" in name} <= changed
    (warning,) = (message for message in caplog.messages if ".*weight_hh.*" in message)
    assert "4 parameters of a biLM" in warning and "weight_hh" in warning


def test_pretrained_weights_are_loaded_into_the_bilm_too(tmp_path: Path) -> None:
    config = stock_tagger(elmo=bilm_files(tmp_path))
    other = {name: torch.full_like(value, 0.5) for name, value in build(config, []).named_parameters()}
    torch.save(other, tmp_path / "other.th")
    start = {"type": "pretrained", "weights_file_path": str(tmp_path / "other.th")}
    loaded, _ = weights(build(config, [[".*", start]]))
    assert all((value == 0.5).all() for value in loaded.values())


@pytest.mark.parametrize("kind", ["elmo_tagger", "simple_tagger"])
def test_regexes_that_match_no_trained_parameter_are_warned_of_once(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []  # AllenNLP's training takes pytest's log handlers away
    monkeypatch.setattr(initializers.logger, "warning", lambda text, *values: said.append(text % values))
    model: Any = tagger(ELMO)
    if kind == "simple_tagger":
        embedder = {"token_embedders": {"elmo": {"type": "elmo", **ELMO}}}
        model = {"type": kind, "encoder": lstm(D), "text_field_embedder": embedder}
    penalty = {"type": "l2", "alpha": 1.0}
    model["regularizer"] = {"regexes": [[name, penalty] for name in ("scalar_mix_0", "mixes.0", "bilm", "encoder")]}
    reader = tags_reader(token_indexers={"elmo": {"type": "elmo_characters"}})
    train(experiment(model, reader, TOWNS, num_epochs=1, no_grad=["_elmo_lstm", "gamma", "bilm"]), tmp_path / "run")
    assert said == [
        "'regularizer': the regex 'mixes.0' matches no parameter that is trained",
        "'regularizer': the regex 'bilm' matches no parameter that is trained",
        "'no_grad': the regex '_elmo_lstm' matches no parameter",
    ]
