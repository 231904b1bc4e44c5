from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError

from elmo_plugin.elmo import Elmo
from tests.elmo.small_elmo import IDS, RANDOM, own
from tests.oracles import options, write_json
from tests.task_oracles import D, L, bilm_files, build_elmo, random_elmo


def test_random_weights_depend_only_on_the_seed_and_leave_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    one, same, other, zero = (random_elmo(bilm={**RANDOM, "seed": seed}) for seed in (1, 1, 2, 0))
    default = random_elmo(bilm={"options": options().to_dict()})
    assert torch.equal(before, torch.get_rng_state())
    for name, value in one.bilm.named_parameters():
        assert torch.equal(value, same.bilm.get_parameter(name))
        assert torch.equal(default.bilm.get_parameter(name), zero.bilm.get_parameter(name))
        if "bias" not in name:
            assert not torch.equal(value, other.bilm.get_parameter(name)), name


@pytest.mark.parametrize(
    "mix",
    [
        "average",
        {"type": "scalar", "initial_scalar_parameters": [0, 0, 1], "trainable": False},
        {"type": "concatenate"},
    ],
)
def test_a_mix_in_a_config_is_built_for_the_sizes_of_the_bilm(mix: Any) -> None:
    built = random_elmo(mix=mix).mixes[0]
    assert (built.num_elmo_layers, built.layer_dim) == (L, D)


@pytest.mark.parametrize("form", ["path of the weights", "folder"])
def test_pretrained_takes_any_known_format(tmp_path: Path, form: str) -> None:
    files = bilm_files(tmp_path)
    source = files["weight_file"] if form == "path of the weights" else str(tmp_path)
    elmo = build_elmo(bilm={"pretrained": source}, dropout=0.0)
    torch.testing.assert_close(elmo(IDS).representations[0], own()(IDS).representations[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("keys", "named", "facts"),
    [
        ({"precision": "float16"}, "precision", ["float32", "bfloat16", "auto", "got 'float16'\n"]),
        ({"initial_state": "cold"}, "initial_state", ["zero", "warm", "carried", "cold"]),
        ({"kernel": "quick"}, "kernel", ["auto", "packed", "reference", "'quick'"]),
        ({"mix": "mean"}, "mix", ["average", "mean"]),
        ({"precision": "bfloat16", "requires_grad": True}, "precision", ["'requires_grad'", "got 'bfloat16'"]),
        # a biLM is described once
        ({"options_file": "somewhere"}, "bilm", ["'options_file'", "'weight_file'"]),
        ({"weight_file": "somewhere"}, "bilm", ["'options_file'", "'weight_file'"]),
        # and by keys that belong together
        ({"bilm": {}}, "bilm", ["[]"]),
        ({"bilm": {"seed": 1}}, "bilm", ["['seed']"]),
        ({"bilm": {"pretrained": "x", "seed": 1}}, "bilm", ["['pretrained', 'seed']"]),
        ({"bilm": {"pretraned": "x"}}, "bilm", ["['pretraned']"]),
        ({"bilm": {"options": {}, "seed": 1}}, "bilm.options", ["'lstm'"]),
        # so is a mix
        ({"mix": "scalar", "do_layer_norm": True}, "mix", ["'do_layer_norm'", "'scalar_mix_parameters'"]),
        ({"mix": "scalar", "scalar_mix_parameters": [0, 0, 0]}, "mix", ["'do_layer_norm'", "'scalar_mix_parameters'"]),
        ({"scalar_mix_parameters": [1.0, 2.0]}, "scalar_mix_parameters", ["expected 3 numbers, got 2"]),
        ({"drop_out": 0.1}, "drop_out", []),
    ],
)
def test_a_wrong_key_is_an_error_that_names_it(keys: dict[str, Any], named: str, facts: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        random_elmo(**keys)
    message = f"{caught.value}\n"
    assert message.startswith(f"'{named}': ") and all(fact in message for fact in facts), message


@pytest.mark.usefixtures("native_bfloat16")
def test_auto_is_float32_for_fine_tuning() -> None:
    tuned = random_elmo(precision="auto", requires_grad=True)
    assert {parameter.dtype for parameter in tuned.bilm.parameters()} == {torch.float32}


def test_options_that_do_not_fit_the_weights_are_an_error_that_names_the_dataset(tmp_path: Path) -> None:
    files = bilm_files(tmp_path)
    wrong = write_json(tmp_path / "wrong.json", options(dim=32).to_dict())
    with pytest.raises(ConfigurationError, match=r"'RNN_0/.*W_0': .*\(16, 128\).*\(16, 96\)"):
        build_elmo(options_file=str(wrong), weight_file=files["weight_file"])


def test_params_are_not_changed() -> None:
    bilm = {"options": options().to_dict(), "seed": 4}
    Elmo.from_params(Params({"bilm": bilm}))
    assert bilm == {"options": options().to_dict(), "seed": 4}


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_contextualizer_has_dropout_only_if_it_is_fine_tuned(requires_grad: bool, tmp_path: Path) -> None:
    sizes = options()
    width = sizes.lstm.projection_dim
    body = {"type": "gated-cnn-encoder", "input_dim": width, "layers": [[[4, width]]], "dropout": 0.5}
    bilm = {"options": {**sizes.to_dict(), "contextualizer": body}}
    cache = None if requires_grad else str(tmp_path / "cache")
    elmo = random_elmo(bilm=bilm, mix=None, requires_grad=requires_grad, sentence_cache=cache).train()
    in_training = [elmo(IDS).representations[0].detach() for _ in range(2)]
    elmo.sentence_cache = None
    in_evaluation = elmo.eval()(IDS).representations[0].detach()
    for one in in_training:
        assert torch.equal(one, in_evaluation) is not requires_grad
