from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from torch.nn.functional import cosine_similarity

from elmo_plugin import Elmo, load, save
from elmo_plugin.elmo import AverageMix, LastMix, LayerMix, ScalarMix
from tests.elmo.small_elmo import IDS, MASK, own, sentences_run
from tests.oracles import options
from tests.task_oracles import D, L, random_elmo, small_bilm


def three_mixes() -> list[LayerMix]:
    return [AverageMix(L, D), LastMix(L, D), ScalarMix(L, D, [1.0, -1.0, 0.5])]


def test_each_output_is_its_own_mix_of_the_layers_without_the_boundaries() -> None:
    elmo = own(*three_mixes())
    layers, bounded = elmo.layers(IDS)  # (L, B, T + 2, D)
    runs = sentences_run(elmo)
    found = elmo(IDS)
    assert runs == [4]
    assert torch.equal(found.mask, MASK) and bounded.sum(dim=1).tolist() == [6, 8, 2, 3]
    average, last, _ = found.representations
    for row, length in enumerate(MASK.sum(dim=1)):
        torch.testing.assert_close(average[row, :length], layers[:, row, 1 : length + 1].mean(dim=0))
        assert torch.equal(last[row, :length], layers[2, row, 1 : length + 1])
    assert not any(values[~MASK].any() for values in found.representations)


def test_words_instead_of_ids_are_an_error_that_says_how_to_make_ids() -> None:
    with pytest.raises(TypeError, match=r"'inputs': expected ids.*batch_to_ids.*got a list"):
        own()([["a", "b"]])


def test_a_number_in_quotes_is_named_in_python_too() -> None:
    with pytest.raises(ConfigurationError, match="'num_output_representations': expected 1 or more, got '1'"):
        Elmo(bilm="english-tiny", num_output_representations="1")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"'dropout': expected a number from 0 to 1, got '0\.5'"):
        Elmo(bilm="english-tiny", dropout="0.5")  # type: ignore[arg-type]


def test_save_says_what_it_saves(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="'elmo': expected an `Elmo` or a biLM, got Embedder"):
        save(load("english-tiny"), tmp_path / "a.safetensors")  # type: ignore[arg-type]


def test_dropout_is_for_training_only() -> None:
    elmo = own(dropout=0.5)
    plain = own()(IDS).representations[0]
    dropped = elmo(IDS).representations[0]
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], 2 * plain[kept])
    assert 0.3 < kept[MASK].float().mean() < 0.7
    assert torch.equal(elmo.eval()(IDS).representations[0], plain)


def test_each_output_has_a_projection_of_its_own() -> None:
    elmo = own(AverageMix(L, D), AverageMix(L, D), projection_dim=5)
    plain = own(AverageMix(L, D))(IDS).representations[0]
    assert elmo.get_output_dim() == 5
    first, second = elmo(IDS).representations
    torch.testing.assert_close(first, torch.nn.functional.linear(plain, *elmo.projections[0].parameters()))
    torch.testing.assert_close(second, torch.nn.functional.linear(plain, *elmo.projections[1].parameters()))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("keep", [False, True])
def test_further_dimensions_are_more_sentences(keep: bool) -> None:
    elmo = own(*three_mixes(), projection_dim=5, keep_sentence_boundaries=keep)
    flat = elmo(IDS)
    for wrapping in ((2, 2), (1, 4, 1)):
        wrapped = elmo(IDS.view(*wrapping, *IDS.shape[1:]))
        assert torch.equal(wrapped.mask, flat.mask.view(*wrapping, -1))
        for found, wanted in zip(wrapped.representations, flat.representations, strict=True):
            assert torch.equal(found, wanted.view(*wrapping, -1, 5))


def test_empty_batches_and_empty_sentences_give_empty_or_zero_vectors() -> None:
    for ids in (IDS[:, :0], IDS[:0], IDS[2:3]):
        found = own()(ids)
        assert found.representations[0].shape == (*ids.shape[:2], D) and not found.representations[0].any()


@pytest.mark.usefixtures("native_bfloat16")
def test_bfloat16_is_close_at_each_layer_and_returned_as_float32() -> None:
    whole, half = own(), own(precision="bfloat16")
    layers, mask = whole.layers(IDS)
    close, _ = half.layers(IDS)
    assert {parameter.dtype for parameter in half.bilm.parameters()} == {torch.bfloat16}
    assert close.dtype == torch.float32 and half(IDS).representations[0].dtype == torch.float32
    for layer, approximate in zip(layers, close, strict=True):
        similarity = cosine_similarity(layer[mask], approximate[mask], dim=-1)  # (tokens,)
        assert similarity.min() > 0.999
        assert not torch.equal(layer, approximate)
    assert torch.equal(own(precision="auto").layers(IDS)[0], close)


@pytest.mark.usefixtures("emulated_bfloat16")
def test_on_another_device_the_bilm_gets_the_type_that_precision_means_there() -> None:
    def types(module: torch.nn.Module) -> set[torch.dtype]:
        return {parameter.dtype for parameter in module.parameters()}

    tagger = torch.nn.ModuleDict({"elmo": own(precision="bfloat16"), "encoder": torch.nn.Linear(2, 2)}).to("meta")
    assert types(tagger["elmo"].bilm) == {torch.bfloat16}  # type: ignore[union-attr,arg-type]
    assert types(tagger["elmo"].scalar_mix_0) == types(tagger["encoder"]) == {torch.float32}  # type: ignore[union-attr,arg-type]
    assert types(own(precision="auto").to("meta").bilm) == types(own().to("meta").bilm) == {torch.float32}
    assert types(own(precision="bfloat16").double().to("meta").bilm) == {torch.float64}  # the user's own choice
    assert types(own(precision="bfloat16").to("meta", torch.float64).bilm) == {torch.float64}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_a_model_may_be_converted_to_another_number_type(dtype: torch.dtype) -> None:
    elmo = random_elmo(dropout=0.0, mix="learned_function", projection_dim=3)
    wanted = elmo(IDS).representations[0]
    found = elmo.to(dtype)(IDS).representations[0]
    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), wanted, rtol=0, atol=1e-6 if dtype == torch.float64 else 0.05)


def test_outputs_have_the_type_of_the_model_and_not_of_its_bilm() -> None:
    elmo = random_elmo(mix="concatenate", precision="bfloat16")
    assert elmo(IDS).representations[0].dtype == torch.float32
    for dtype in (torch.bfloat16, torch.float64):
        assert elmo.to(dtype)(IDS).representations[0].dtype == dtype
        assert elmo.layers(IDS)[0].dtype == dtype  # as the mixes need them, in a predictor too
    elmo = random_elmo(mix="concatenate")
    elmo.bilm.half()
    assert elmo(IDS).representations[0].dtype == torch.float32
    assert not any("output_like" in name for name in elmo.state_dict())


def test_the_dropout_of_pretraining_is_off_in_a_task() -> None:
    bilm = small_bilm()
    bilm.lstm.input_dropout.p = 0.5
    elmo = own(bilm=bilm).train()
    assert torch.equal(elmo(IDS).representations[0], elmo(IDS).representations[0])


@pytest.mark.parametrize(
    ("keys", "named", "facts"),
    [
        ({"precision": "bfloat16", "requires_grad": True}, "precision", ["'requires_grad'", "got 'bfloat16'"]),
        # a biLM is described once
        ({"options_file": "somewhere"}, "bilm", ["'options_file'", "'weight_file'"]),
        # and by keys that belong together
        ({"bilm": {"pretrained": "x", "seed": 1}}, "bilm", ["['pretrained', 'seed']"]),
        ({"bilm": {"options": {}, "seed": 1}}, "bilm.options", ["'lstm'"]),
        # so is a mix
        ({"mix": "scalar", "do_layer_norm": True}, "mix", ["'do_layer_norm'", "'scalar_mix_parameters'"]),
        ({"scalar_mix_parameters": [1.0, 2.0]}, "scalar_mix_parameters", ["expected 3 numbers, got 2"]),
    ],
)
def test_keys_that_contradict_each_other_are_named(keys: dict[str, Any], named: str, facts: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        random_elmo(**keys)
    message = f"{caught.value}\n"
    assert message.startswith(f"'{named}': ") and all(fact in message for fact in facts), message


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
