"""Devices that no test machine has: what runs there is plain torch, which PyTorch's own table of operators supports."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torchgen
import yaml
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DataLoader, DatasetReader, Vocabulary
from allennlp.models import Model
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from elmo_plugin import load
from elmo_plugin.bilm import dtype_on
from elmo_plugin.pretraining import softmax as softmaxes
from elmo_plugin.pretraining.softmax import in_float64
from elmo_plugin.tensors import Way, fastest_way, product_type, products
from tests.oracles import options
from tests.pretraining_runs import config as pretraining_config
from tests.task_oracles import (
    TOWNS,
    Config,
    D,
    as_tensors,
    build_model,
    experiment,
    lstm,
    tagger,
    tags_reader,
    word_embedder,
)

MPS = torch.device("mps")


@pytest.fixture(scope="module")
def has_mps() -> Any:
    """Tell whether PyTorch's table of operators lists a kernel for Apple's GPUs."""
    path = Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
    entries = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    table = {entry["func"].partition("(")[0]: entry for entry in entries}

    def has_mps(name: str) -> bool:
        entry = table.get(name, {"dispatch": {}})
        if "structured_delegate" in entry:
            return has_mps(entry["structured_delegate"])
        kernels = {key.strip() for keys in entry.get("dispatch", {"MPS": ""}) for key in keys.split(",")}
        return any(kernel == "MPS" or kernel.startswith("Composite") for kernel in kernels)

    return has_mps


class Operators(TorchDispatchMode):
    """Notes the names of the operators that run, those of the backward pass too, and which ones give float64."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.in_float64: set[str] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator."""
        output = function(*args, **(kwargs or {}))
        overload = "" if function._overloadname == "default" else f".{function._overloadname}"
        name = function._schema.name.removeprefix("aten::") + overload
        self.names.add(name)
        if any(isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float64 for leaf in tree_leaves(output)):
            self.in_float64.add(name)
        return output


@pytest.fixture
def as_on_mps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a processor compute as Apple's GPUs do: without oneDNN, and with float64 elsewhere."""
    monkeypatch.setattr(products, "has_onednn", lambda dtype: False)
    monkeypatch.setattr("elmo_plugin.pretraining.metrics.in_float64", torch.Tensor.float)
    monkeypatch.setattr(softmaxes, "in_float64", torch.Tensor.float)
    sample = softmaxes.draw_log_uniform(33, 6, torch.Generator().manual_seed(0))  # likewise
    monkeypatch.setattr(softmaxes, "draw_log_uniform", lambda *_: sample)


def check(operators: Operators, has_mps: Any) -> None:
    """Check that Apple's GPUs have the operators."""
    assert len(operators.names) > 20 and not operators.in_float64
    assert [name for name in sorted(operators.names) if not has_mps(name)] == []


def skip_where_no_bilm_can_be_trained(has_mps: Any) -> None:
    """Skip a test where PyTorch cannot find the distinct words of a batch on Apple's GPUs."""
    if not has_mps("unique_dim"):
        pytest.skip(
            f"on Apple's GPUs training a biLM needs PyTorch 2.10, which brings unique_dim, got {torch.__version__}"
        )


@pytest.mark.slow
@pytest.mark.usefixtures("as_on_mps")
def test_apples_gpus_have_every_operator_of_a_task_model(has_mps: Any) -> None:
    skip_where_no_bilm_can_be_trained(has_mps)
    words = {"encoder": lstm(D + 5), "text_field_embedder": word_embedder(5)}
    elmo = {"bilm": {"options": options().to_dict(), "seed": 0}, "requires_grad": True}
    model, data = build_model(experiment(tagger(elmo, **words), tags_reader(), TOWNS))
    with Operators() as operators:
        model.train()(**as_tensors(data[:3], model.vocab))["loss"].backward()
        model.eval().make_output_human_readable(model(**as_tensors(data[:2], model.vocab)))
        model.get_metrics()
    check(operators, has_mps)


@pytest.mark.slow
@pytest.mark.usefixtures("as_on_mps")
@pytest.mark.parametrize(
    ("loader", "softmax"),
    [
        ("unrolled_streams", {"type": "sampled", "n_samples": 6}),
        ("sentence_batches", {"type": "full"}),
        ("sentence_batches", {"type": "adaptive", "cutoffs": [5, 12], "div_value": 2.0}),
    ],
)
def test_apples_gpus_have_every_operator_of_pretraining(
    loader: str, softmax: Config, has_mps: Any, tmp_path: Path
) -> None:
    skip_where_no_bilm_can_be_trained(has_mps)
    config = pretraining_config(tmp_path, loader)
    vocab = Vocabulary.from_params(Params(config["vocabulary"]))
    model = Model.from_params(Params({**config["model"], "softmax": softmax}), vocab=vocab)
    reader = DatasetReader.from_params(Params(config["dataset_reader"]))
    batches = DataLoader.from_params(Params(config["data_loader"]), reader=reader, data_path=config["train_data_path"])
    batches.index_with(vocab)
    batch = next(iter(batches))
    with Operators() as operators:
        model.train()(**batch)["loss"].backward()
        model.eval()(**batch)
        model.state_dict()
    check(operators, has_mps)


def test_on_apples_gpus_auto_is_the_plain_kernel_in_float32_and_float64_is_elsewhere() -> None:
    with torch._subclasses.FakeTensorMode():
        values = torch.ones(2, 2, device=MPS)
        assert values.device.type == "mps"
        assert in_float64(values).device.type == "cpu" and in_float64(values).dtype == torch.float64
        assert fastest_way(values, 2) is Way.TORCH and product_type(values) == torch.float32
    assert dtype_on(MPS, "auto") == torch.float32 and dtype_on(MPS, "bfloat16") == torch.bfloat16


@pytest.mark.parametrize("device", ["no such", "xpu", 7])
def test_a_device_that_is_not_there_is_an_error_that_names_it(device: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"'device'.*{device!r}"):
        load("english-tiny", device=device)


def test_a_device_has_a_name_or_a_number() -> None:
    assert load("english-tiny", device="cpu").device == torch.device("cpu")
    with pytest.raises(ConfigurationError, match=r"'cuda_device' or 'device'.*0 and 'cpu'"):
        load("english-tiny", cuda_device=0, device="cpu")
