from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError

from elmo_plugin.elmo import Elmo, ScalarMix
from elmo_plugin.text import batch_to_ids
from tests.oracles import SENTENCES, options, reference_elmo, write_json
from tests.task_oracles import D, L, bilm_files, build_elmo, random_elmo, small_bilm

IDS = batch_to_ids(SENTENCES)  # (4, 6, 50), an empty sentence among them


def own(*mixes: Any, **keys: Any) -> Elmo:
    """An Elmo around the small biLM, without dropout."""
    return Elmo.from_parts(small_bilm(), list(mixes or [ScalarMix(L, D)]), **{"dropout": 0.0, **keys})


def test_random_weights_are_those_of_their_seed_and_leave_the_generator_alone() -> None:
    before = torch.get_rng_state()
    one, same, other = (random_elmo(bilm={"options": options().to_dict(), "seed": seed}) for seed in (1, 1, 2))
    default = random_elmo(bilm={"options": options().to_dict()})
    zero = random_elmo(bilm={"options": options().to_dict(), "seed": 0})
    assert torch.equal(before, torch.get_rng_state())
    names = dict(one.bilm.named_parameters())
    for name, value in names.items():
        assert torch.equal(value, same.bilm.get_parameter(name))
        assert torch.equal(default.bilm.get_parameter(name), zero.bilm.get_parameter(name))
        if "bias" not in name:
            assert not torch.equal(value, other.bilm.get_parameter(name)), name


def test_scalar_mix_parameters_are_upstreams_frozen_and_before_the_softmax(tmp_path: Path) -> None:
    weights = [0.5, -1.0, 2.0]
    reference = reference_elmo(tmp_path, small_bilm(), scalar_mix_parameters=weights)
    elmo = build_elmo(**bilm_files(tmp_path), scalar_mix_parameters=weights, dropout=0.0)
    wanted = reference(IDS)["elmo_representations"][0]
    torch.testing.assert_close(elmo(IDS).representations[0], wanted, atol=1e-5, rtol=0)
    assert not any(parameter.requires_grad for parameter in elmo.parameters())
    assert not any(parameter.requires_grad for parameter in reference.parameters())


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
def test_pretrained_takes_any_format_that_is_known(tmp_path: Path, form: str) -> None:
    files = bilm_files(tmp_path)
    source = files["weight_file"] if form == "path of the weights" else str(tmp_path)
    elmo = build_elmo(bilm={"pretrained": source}, dropout=0.0)
    torch.testing.assert_close(elmo(IDS).representations[0], own()(IDS).representations[0], atol=1e-6, rtol=0)


def elmo_error(**keys: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        random_elmo(**keys)
    return str(caught.value)


def test_an_unknown_choice_is_an_error_that_names_key_and_choices() -> None:
    precision = elmo_error(precision="float16")
    assert precision.startswith("'precision': ") and precision.endswith("got 'float16'")
    assert all(name in precision for name in ("float32", "bfloat16", "auto"))
    state = elmo_error(initial_state="cold")
    assert state.startswith("'initial_state': ") and "cold" in state
    assert all(name in state for name in ("zero", "warm", "carried"))
    kernel = elmo_error(kernel="quick")
    assert kernel.startswith("'kernel': ") and "'quick'" in kernel
    assert all(name in kernel for name in ("auto", "packed", "reference"))
    mix = elmo_error(mix="mean")
    assert mix.startswith("'mix': ") and "mean" in mix and "average" in mix


def test_bfloat16_is_not_for_fine_tuning() -> None:
    error = elmo_error(precision="bfloat16", requires_grad=True)
    assert error.startswith("'precision': ") and "'requires_grad'" in error and "got 'bfloat16'" in error


@pytest.mark.usefixtures("native_bfloat16")
def test_auto_is_float32_for_fine_tuning() -> None:
    tuned = random_elmo(precision="auto", requires_grad=True)
    assert {parameter.dtype for parameter in tuned.bilm.parameters()} == {torch.float32}


@pytest.mark.parametrize("key", ["options_file", "weight_file"])
def test_a_bilm_is_described_once(key: str) -> None:
    message = elmo_error(**{key: "somewhere"})
    assert all(name in message for name in ("'bilm'", "'options_file'", "'weight_file'"))


@pytest.mark.parametrize("bilm", [{}, {"seed": 1}, {"pretrained": "x", "seed": 1}, {"pretraned": "x"}])
def test_other_keys_of_a_bilm_are_an_error_that_lists_them(bilm: dict[str, Any]) -> None:
    assert str(sorted(bilm)) in elmo_error(bilm=bilm)


def test_options_of_a_random_bilm_are_checked() -> None:
    message = elmo_error(bilm={"options": {}, "seed": 1})
    assert "'bilm.options'" in message and "'lstm'" in message


def test_both_forms_of_a_mix_are_an_error() -> None:
    for short_form in ({"do_layer_norm": True}, {"scalar_mix_parameters": [0, 0, 0]}):
        message = elmo_error(mix="scalar", **short_form)
        assert all(name in message for name in ("'mix'", "'do_layer_norm'", "'scalar_mix_parameters'"))


def test_scalar_mix_parameters_of_the_wrong_length_are_an_error() -> None:
    message = elmo_error(scalar_mix_parameters=[1.0, 2.0])
    assert "'scalar_mix_parameters'" in message and "expected 3 numbers, got 2" in message


def test_a_misspelt_key_is_an_error_that_names_it() -> None:
    assert "drop_out" in elmo_error(drop_out=0.1)


def test_options_that_do_not_fit_the_weights_are_an_error_that_names_the_dataset(tmp_path: Path) -> None:
    files = bilm_files(tmp_path)
    wrong = write_json(tmp_path / "wrong.json", options(dim=32).to_dict())
    with pytest.raises(ConfigurationError, match=r"'RNN_0/.*W_0': .*\(16, 128\).*\(16, 96\)"):
        build_elmo(options_file=str(wrong), weight_file=files["weight_file"])


def test_words_in_a_cache_are_not_needed_and_change_nothing(tmp_path: Path) -> None:
    elmo = build_elmo(**bilm_files(tmp_path), vocab_to_cache=["The", "cat"], dropout=0.0)
    torch.testing.assert_close(elmo(IDS).representations[0], own()(IDS).representations[0], atol=1e-6, rtol=0)


def test_the_params_are_left_as_they_were(tmp_path: Path) -> None:
    bilm = {"options": options().to_dict(), "seed": 4}
    Elmo.from_params(Params({"bilm": bilm}))
    assert bilm == {"options": options().to_dict(), "seed": 4}


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_contextualizer_drops_only_if_it_is_fine_tuned(requires_grad: bool, tmp_path: Path) -> None:
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
