"""Sentences read without `<S>` and `</S>`: two steps less, and the same vectors."""

import pickle
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor

from elmo_plugin.bilm import BiLM, BiLMOptions, CarriedState, InitialState, WarmState, ZeroState, warm_up
from elmo_plugin.checkpoints import build_bilm, load_checkpoint
from elmo_plugin.elmo import AverageMix, Elmo, LayerMix, ScalarMix
from elmo_plugin.lstm import LstmInputs
from elmo_plugin.text import batch_to_code_points, batch_to_ids
from tests.oracles import SENTENCES, lively, options

IDS = batch_to_ids([*SENTENCES, [], ["b" * 300] * 9])
WORD_IDS = torch.tensor([[3, 4, 5], [5, 0, 0], [0, 0, 0]])


def frozen(sizes: BiLMOptions, ids: Tensor = IDS) -> BiLM:
    """Return a biLM with large weights, which are not trained, and with a warm state from these ids."""
    bilm = lively(BiLM(sizes)).requires_grad_(False)
    bilm.warm_state = warm_up(bilm, [ids])
    return bilm


def elmo_of(bilm: BiLM, state: InitialState) -> Elmo:
    return Elmo.from_parts(bilm, [AverageMix(3, 16)], dropout=0.0, initial_state=state)


def both(elmo: Elmo, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the layers of the tokens (L, B, T, D), with boundaries that are cut off, and without."""
    bounded, mask = elmo.layers(ids)
    inside, mask_inside = elmo.layers(ids, keep_sentence_boundaries=False)
    assert torch.equal(mask_inside, mask[:, 2:])
    return bounded[:, :, 1:-1] * mask_inside.unsqueeze(-1), inside


@pytest.mark.parametrize("state", [ZeroState, WarmState])
@pytest.mark.parametrize("clips", [{}, {"cell_clip": 0.4, "proj_clip": 0.3}])
def test_tokens_have_the_same_layers(state: type[InitialState], clips: dict[str, float]) -> None:
    elmo = elmo_of(frozen(options(**clips)), state())
    for ids in (IDS, IDS[:1], IDS[4:5], IDS[:, :1], IDS[:, :0], IDS[:0]):
        torch.testing.assert_close(*both(elmo, ids), atol=1e-6, rtol=0)


LEXICON = {
    "max_characters_per_token": 14,
    "word_dim": 5,
    "words": ["<oov>", "<pad>", "<bos>", "<eos>", "cat"],
    "characters": ["<oov>", "<pad>", "<bow>", "<eow>", "<bos>", "<eos>", "c", "a", "t"],
    "char_cnn": {"embedding": {"dim": 4}, "filters": [[1, 4], [3, 8]], "n_highway": 1},
}
CODE_POINTS = batch_to_code_points([["cat", "tact", "道"], [], ["cat"]], 14)


@pytest.mark.parametrize(
    ("reads", "ids"),
    [({"n_tokens_vocab": 6, "boundary_ids": (1, 2)}, WORD_IDS), ({"lexicon": LEXICON}, CODE_POINTS)],
    ids=["words", "code points"],
)
def test_other_encoders_have_the_same_layers(reads: dict[str, Any], ids: Tensor) -> None:
    bilm = frozen(BiLMOptions.from_dict({"lstm": options().lstm.to_dict(), **reads}), ids)
    torch.testing.assert_close(*both(elmo_of(bilm, WarmState()), ids), atol=1e-6, rtol=0)


@pytest.mark.parametrize(("precision", "bound"), [("bfloat16", 2e-2), ("int8", 2e-2)])
@pytest.mark.usefixtures("rounded_small_weights")
def test_layers_in_fewer_bits_are_as_close_as_those_of_other_batches(precision: str, bound: float) -> None:
    bilm = build_bilm(load_checkpoint("english-tiny")).requires_grad_(False).set_precision(precision)
    bounded, inside = both(elmo_of(bilm, ZeroState()), IDS)
    assert (bounded - inside).abs().max() <= bound * bounded.abs().max()


def steps_read(elmo: Elmo, ids: Tensor, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the number of steps of each pass through the first layer, in one call of `elmo`."""
    read, kernel = [], elmo.bilm.lstm.kernel

    def watched(inputs: LstmInputs) -> object:
        read.append(len(inputs.sizes))
        return kernel(inputs)

    with monkeypatch.context() as patch:
        patch.setattr(elmo.bilm.lstm, "kernel", watched)
        elmo(ids)
    return read[:: elmo.bilm.options.lstm.n_layers]


def test_boundaries_are_read_once_until_a_weight_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    elmo = elmo_of(frozen(options()), ZeroState())
    longest = IDS.size(1)
    assert [steps_read(elmo, IDS, monkeypatch) for _ in range(2)] == [[1, longest], [longest]]
    with torch.no_grad():
        elmo.bilm.lstm.forward_layers[0].weight_ih.mul_(1.5)  # type: ignore[operator]
    assert steps_read(elmo, IDS, monkeypatch) == [1, longest]
    torch.testing.assert_close(*both(elmo, IDS), atol=1e-6, rtol=0)


def test_they_are_read_with_each_sentence_if_something_may_depend_on_that(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [IDS.size(1) + 2]
    assert steps_read(elmo_of(frozen(options()), CarriedState()), IDS, monkeypatch) == whole
    assert steps_read(elmo_of(frozen(options()).requires_grad_(), ZeroState()), IDS, monkeypatch) == whole
    hooked = elmo_of(frozen(options()), ZeroState())
    hooked.bilm.lstm.register_forward_hook(lambda *_: None)
    assert steps_read(hooked, IDS, monkeypatch) == whole
    mixes: list[LayerMix] = [ScalarMix(3, 16), ScalarMix(3, 16, do_layer_norm=True)]
    assert steps_read(Elmo.from_parts(frozen(options()), mixes), IDS, monkeypatch) == whole


def test_copies_and_pickles_read_them_again() -> None:
    elmo = elmo_of(frozen(options()), ZeroState())
    size = len(pickle.dumps(elmo))
    (wanted,) = elmo(IDS).representations
    assert len(pickle.dumps(elmo)) == size
    for copy in (deepcopy(elmo), pickle.loads(pickle.dumps(elmo))):
        assert torch.equal(copy(IDS).representations[0], wanted)
