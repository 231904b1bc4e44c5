"""Promises of every mix, encoder and model: padding changes nothing, and a frozen part gets no gradient."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.models import Model
from allennlp.modules import Seq2SeqEncoder
from torch import Tensor
from torch.nn.functional import pad

from elmo_plugin.elmo import LayerMix
from elmo_plugin.pretraining.vocabulary import WordIds
from tests.language_model_oracles import HELDOUT, language_model
from tests.oracles import options
from tests.task_oracles import (
    OPINIONS,
    TOWNS,
    D,
    L,
    as_tensors,
    build_model,
    classifier,
    csv_reader,
    experiment,
    lstm,
    tagger,
    tags_reader,
    word_embedder,
)

MASK = torch.arange(5) < torch.tensor([3, 0, 5]).unsqueeze(1)  # (B, T)
ENCODERS = {
    "elmo_lstm": {"input_size": L * D, "hidden_size": 4, "cell_size": 6, "num_layers": 2},
    "elmo_enhanced": {"encoder": lstm(D), "num_elmo_layers": L, "layer_dim": D, "dropout": 0.0},
}
FINE_TUNED = {"bilm": {"options": options().to_dict(), "seed": 0}, "dropout": 0.0, "requires_grad": True}
Batch = dict[str, Any]


def mixing(name: str) -> Callable[[Tensor, Tensor], Tensor]:
    """A mix as a function of its layers side by side (B, T, L · D)."""
    mix = LayerMix.from_params(Params({"type": name}), num_elmo_layers=L, layer_dim=D)
    return lambda values, mask: mix(values.unflatten(-1, (L, D)).permute(2, 0, 1, 3), mask)


def encoding(name: str) -> Callable[[Tensor, Tensor], Tensor]:
    """An encoder."""
    encoder = Seq2SeqEncoder.from_params(Params({"type": name, **ENCODERS[name]})).eval()
    return lambda values, mask: encoder(values, mask)


@pytest.mark.parametrize(
    ("build", "name"),
    [
        *((mixing, name) for name in LayerMix.list_available()),
        *((encoding, name) for name in Seq2SeqEncoder.list_available() if name.startswith("elmo")),
    ],
)
def test_what_lies_in_padding_is_not_read(build: Callable[..., Any], name: str) -> None:
    run = build(name)
    half = torch.randn(3, 5, D // 2)
    values = torch.cat([half, half, torch.randn(3, 5, (L - 1) * D)], dim=-1)  # a biLM's token layer has equal halves
    other = torch.cat([values.where(MASK.unsqueeze(-1), 100 * values.roll(1, 0)), 100 * values[:, :3]], dim=1)
    wider = pad(MASK, (0, 3))
    torch.testing.assert_close(run(other, wider)[wider], run(values, MASK)[MASK], rtol=1e-5, atol=1e-6)


@cache
def models() -> dict[str, tuple[Model, Batch]]:
    """Every model whose parameters all train, with a batch."""
    built = {}
    task = {"text_field_embedder": word_embedder(), "encoder": lstm(D + 5)}
    for name, config in {
        "elmo_tagger": experiment(tagger(FINE_TUNED, **task), tags_reader(), TOWNS),
        "elmo_classifier": experiment(classifier(FINE_TUNED, **task), csv_reader(), OPINIONS),
    }.items():
        model, data = build_model(config)
        built[name] = model, as_tensors(data[:4], model.vocab)
    lm = language_model()
    sentences = [line.split() for line in HELDOUT]
    return {**built, "bilm": (lm, {"tokens": WordIds(lm.vocab).of_sentences(sentences)})}


MODELS = ["elmo_tagger", "elmo_classifier", "bilm"]


def gradients(model: Model, batch: Batch) -> dict[str, Tensor]:
    """The loss, and the gradient of each parameter that trains."""
    model.zero_grad(set_to_none=True)
    loss = model(**batch)["loss"]
    loss.backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    return {"loss": loss.detach(), **found}


def padded(tensors: Any, columns: int) -> Any:
    """The tensors (B, T, …) of a batch with more columns of zeros."""
    if isinstance(tensors, dict):
        return {key: padded(value, columns) for key, value in tensors.items()}
    is_per_token = isinstance(tensors, Tensor) and tensors.dim() > 1
    return pad(tensors, (*[0, 0] * (tensors.dim() - 2), 0, columns)) if is_per_token else tensors


@pytest.mark.parametrize("name", MODELS)
def test_padding_changes_neither_the_loss_nor_a_gradient(name: str) -> None:
    model, batch = models()[name]
    wanted, found = gradients(model, batch), gradients(model, padded(batch, 4))
    assert len(wanted) == 1 + sum(parameter.requires_grad for parameter in model.parameters())
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_a_frozen_part_gets_no_gradient_and_the_others_get_theirs(name: str) -> None:
    """A part is a module or a parameter, as in the key `no_grad` of AllenNLP's trainer."""
    model, batch = models()[name]
    parameters = {name: each for name, each in model.named_parameters() if each.requires_grad}
    frozen = {"bilm": ["bilm.lstm", "softmax"]}.get(name, ["text.encoder", "text.elmo.bilm.token_encoder"])
    left = {name for name in parameters if not any(f"{name}.".startswith(f"{part}.") for part in frozen)}
    wanted = gradients(model, batch)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    try:
        for name, parameter in parameters.items():
            parameter.requires_grad_(name in left)
        found = gradients(model, batch)
        assert found.keys() == {"loss", *left} and left != parameters.keys()
        torch.testing.assert_close(found, {key: wanted[key] for key in found}, rtol=1e-4, atol=1e-6)
        torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1).step()
        assert left == {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    finally:
        model.load_state_dict(before)
        for parameter in parameters.values():
            parameter.requires_grad_(True)
