"""`torch.compile` around our modules: the products of oneDNN stay out of the compiled graphs, and the answers stay."""

import copy
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from allennlp.common import Params
from packaging.version import Version
from torch import Tensor, nn
from torch.fx import GraphModule

from elmo_plugin import Elmo, batch_to_ids
from tests.language_model_oracles import language_model
from tests.oracles import options

pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 14) and Version(torch.__version__) < Version("2.10"),
    reason="with Python 3.14 `torch.compile` needs PyTorch 2.10",
)

SENTENCES = [["Two", "words"], ["One"], ["Three", "more", "words"]]
BILM = {"options": options().to_dict(), "seed": 1}
CHAR_CNN = options().to_dict()["char_cnn"]
IDS = batch_to_ids(SENTENCES, CHAR_CNN["max_characters_per_token"])


@pytest.fixture(autouse=True)
def compile_again() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def without_onednn(graph: GraphModule, example_inputs: list[Tensor]) -> Callable[..., Any]:
    """A backend that runs each graph as it is. PyTorch's own fails where oneDNN multiplies by a weight it is given."""
    assert not [node for node in graph.graph.nodes if "mkldnn" in str(node.target)]
    return graph.forward


def gradients(module: nn.Module, output: Tensor) -> list[Tensor]:
    parameters = [each for each in module.parameters() if each.requires_grad]
    found = torch.autograd.grad(output.square().sum(), parameters, allow_unused=True)
    return [each for each in found if each is not None]


def check(module: nn.Module, run: Callable[[Any], Tensor]) -> None:
    """Compare a module with itself compiled, in training and in evaluation."""
    compiled: Any = torch.compile(copy.deepcopy(module), backend=without_onednn)
    for training in (True, False):
        outputs = []
        for each in (module, compiled):
            torch.manual_seed(0)
            output = run(each.train(training))
            outputs.append((output.detach(), gradients(each, output)))
        assert outputs[0][1]
        torch.testing.assert_close(outputs[1], outputs[0])
        with torch.no_grad():
            torch.testing.assert_close(run(compiled), run(module))


@pytest.mark.parametrize(
    "keys",
    [
        {},
        pytest.param({"requires_grad": True, "projection_dim": 5}, marks=pytest.mark.slow),
        pytest.param({"precision": "int8"}, marks=pytest.mark.slow),
    ],
    ids=["frozen", "trained", "int8"],
)
@pytest.mark.usefixtures("rounded_small_weights")
def test_elmo_compiles(keys: dict[str, Any]) -> None:
    elmo = Elmo.from_params(Params({"bilm": BILM, "dropout": 0, **keys}))
    check(elmo, lambda each: each(IDS).representations[0])


def test_a_language_model_compiles() -> None:
    words = torch.tensor([[3, 4, 0], [1, 0, 0], [2, 5, 6]])
    tokens = {"characters": {"elmo_tokens": IDS}, "words": {"tokens": words}}
    check(language_model(softmax={"type": "sampled", "n_samples": 5}), lambda each: each(tokens=tokens)["loss"])
