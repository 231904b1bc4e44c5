"""Whether a biLM is trained is read from its parameters, and its precision is its own."""

import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin import Elmo, batch_to_ids
from tests.oracles import SENTENCES, options

IDS = batch_to_ids(SENTENCES)


def make_elmo(**keys: object) -> Elmo:
    return Elmo(bilm={"options": options().to_dict(), "seed": 1}, dropout=0.0, **keys)  # type: ignore[arg-type]


@pytest.mark.parametrize("training", [True, False])
def test_parameters_alone_decide_whether_gradients_reach_the_bilm(training: bool) -> None:
    elmo = make_elmo(mix="last").train(training)
    assert not elmo(IDS).representations[0].requires_grad
    elmo.requires_grad_()
    elmo(IDS).representations[0].sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in elmo.bilm.lstm.parameters())
    elmo.requires_grad_(False)
    assert not elmo(IDS).representations[0].requires_grad


@pytest.mark.usefixtures("rounded_small_weights")
def test_int8_weights_cannot_be_trained() -> None:
    elmo = make_elmo(precision="int8")
    if elmo.bilm.precision_of_weights != "int8":
        pytest.skip("this processor has no int8 products")
    elmo.requires_grad_()
    with pytest.raises(ConfigurationError, match=r"'precision'.*'float32'.*'int8'"):
        elmo(IDS)
    elmo.requires_grad_(False).bilm.set_precision("float32").requires_grad_()
    elmo(IDS).representations[0].sum().backward()
    assert torch.is_tensor(next(elmo.bilm.parameters()).grad)
