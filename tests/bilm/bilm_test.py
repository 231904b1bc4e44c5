"""Parity: the same weights give AllenNLP's layers and gradients, and the activations of the TensorFlow original."""

import json
from pathlib import Path

import h5py
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules import lstm_cell_with_projection
from torch import Tensor

from elmo_plugin.bilm import BiLM, BiLMOptions
from elmo_plugin.bilm.bilm import read_extra_state
from elmo_plugin.checkpoints import build_bilm, load_checkpoint
from elmo_plugin.text import batch_to_ids
from tests.oracles import (
    SENTENCES,
    assert_golden_activations,
    file_layers,
    lively,
    options,
    reference_elmo,
    reference_layers,
    reference_parameters,
)

IDS = batch_to_ids(SENTENCES)
TIGHT = {"cell_clip": 0.6, "proj_clip": 0.4}  # bounds that random weights often reach
SHAPES = {
    "tight clips": options(**TIGHT),
    "no clips": options(cell_clip=None, proj_clip=None),
    "one layer": options(n_layers=1, n_highway=0, filters=[[3, 9]]),
    "three layers": options(n_layers=3, n_highway=1, activation="tanh", dim=11, projection_dim=5, filters=[[7, 4]]),
}
ORIGINAL = options(
    dim=4096,
    projection_dim=512,
    embedding={"dim": 16},
    filters=[[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
)

shapes = pytest.mark.parametrize("sizes", SHAPES.values(), ids=SHAPES)


def weigh(layers: Tensor) -> Tensor:
    """A sum of all numbers, each with its own weight."""
    return (layers * torch.randn(layers.shape, generator=torch.Generator().manual_seed(1))).sum()


@shapes
@pytest.mark.parametrize("kernel", ["packed", "reference"])
def test_each_layer_equals_the_reference(tmp_path: Path, sizes: BiLMOptions, kernel: str) -> None:
    bilm = lively(BiLM(sizes, kernel), scale=1.5)
    reference = reference_elmo(tmp_path, bilm)
    output = bilm(IDS)
    torch.testing.assert_close(output.layers, reference_layers(reference, IDS), rtol=0, atol=1e-5)
    assert torch.equal(output.mask, reference._elmo_lstm(IDS)["mask"])


def test_random_weights_reach_the_tight_clips() -> None:
    """Otherwise the parity tests would not notice a missing or misplaced clip."""
    state = lively(BiLM(SHAPES["tight clips"]), scale=1.5)(IDS).state
    for part, bound in ((state.cell, 0.6), (state.hidden, 0.4)):
        assert 0.05 < (part.abs() >= bound - 1e-6).float().mean() < 0.95


@shapes
def test_each_parameter_has_the_gradient_of_the_reference(tmp_path: Path, sizes: BiLMOptions) -> None:
    bilm = lively(BiLM(sizes), scale=1.5)
    reference = reference_elmo(tmp_path, bilm, requires_grad=True)
    weigh(bilm(IDS).layers).backward()
    weigh(reference_layers(reference, IDS)).backward()
    theirs = reference_parameters(reference)
    ours = dict(bilm.named_parameters())
    assert set(ours) == set(theirs)
    for name, parameter in ours.items():
        wanted = theirs[name].grad
        assert parameter.grad is not None and wanted is not None and wanted.any(), name
        error = (parameter.grad - wanted).abs().max() / wanted.abs().max()
        assert error < 1e-5, f"{name}: {error}"


@pytest.mark.slow
def test_the_original_size_has_the_layers_of_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lstm_cell_with_projection, "block_orthogonal", lambda *_: None)  # slow, and overwritten at once
    bilm = lively(BiLM(ORIGINAL))
    assert sum(parameter.numel() for parameter in bilm.parameters()) == 93_600_864
    ids = batch_to_ids([["The", "cat", "sat", "."], ["naïve", "a" * 300]])
    wanted = reference_layers(reference_elmo(tmp_path, bilm), ids)
    assert wanted.shape == (3, 2, 6, 1024) and wanted.std() > 0.1
    with torch.no_grad():
        torch.testing.assert_close(bilm(ids).layers, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kernel", ["packed", "reference"])
def test_golden_activations_of_the_tensorflow_original(golden: Path, kernel: str) -> None:
    bilm = build_bilm(load_checkpoint(golden / "lm_weights.hdf5"), kernel)
    assert_golden_activations(golden, bilm, batch_to_ids)


def test_the_oracle_computes_the_golden_activations(golden: Path) -> None:
    """`file_layers` is the oracle for shapes that no other implementation reads."""
    texts = json.loads((golden / "sentences.json").read_text(encoding="utf-8"))
    for j, (text, *_) in enumerate(texts):
        top = file_layers(golden, text.split(), "lm_weights.hdf5")[-1, 1:-1]
        with h5py.File(golden / f"lm_embeddings_{j}.hdf5", "r") as file:
            wanted = torch.tensor(file["0"][...])  # (2, T, P), the state before it is zero
        torch.testing.assert_close(torch.stack(top.chunk(2, dim=-1)).float(), wanted, rtol=0, atol=1e-5)


def test_golden_token_vectors_of_the_tensorflow_original(golden: Path) -> None:
    words = (golden / "vocab_test.txt").read_text(encoding="utf-8").split("\n")[:458]
    with h5py.File(golden / "elmo_token_embeddings.hdf5", "r") as file:
        wanted = torch.tensor(file["embedding"][...])  # (V, P)
    layers, mask, _ = build_bilm(load_checkpoint(golden / "lm_weights.hdf5"))(batch_to_ids([words]))
    assert len(words) == len(wanted) and mask.all()
    for half in layers[0, 0, 1:-1].chunk(2, dim=-1):
        torch.testing.assert_close(half, wanted, rtol=0, atol=1e-6)


def test_the_output_has_a_boundary_at_each_end_and_zeros_beyond() -> None:
    bilm = lively(BiLM(options(n_layers=3)))
    layers, mask, state = bilm(IDS)  # (L, B, T, D)
    assert layers.shape == (4, 4, 8, 16)
    assert mask.sum(dim=1).tolist() == [len(sentence) + 2 for sentence in SENTENCES]
    assert not layers[:, ~mask].any() and layers[:, mask].any(dim=-1).all()
    assert torch.equal(*layers[0].chunk(2, dim=-1))
    assert [part.shape for part in state] == [(3, 2, 4, 8), (3, 2, 4, 24)]


@pytest.mark.parametrize(("rows", "steps"), [(2, 0), (0, 3)])
def test_a_batch_without_words_runs(rows: int, steps: int) -> None:
    layers, mask, _ = BiLM(options())(torch.zeros(rows, steps, 50, dtype=torch.long))
    assert layers.shape == (3, rows, steps + 2, 16)
    assert mask.sum(dim=1).tolist() == [2] * rows


def test_a_random_bilm_depends_only_on_its_seed_and_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    first, again, other = (BiLM.random(options(), seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert (first.source, other.source) == ("random:1", "random:2")
    weights = first.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in again.state_dict().items())
    assert not torch.equal(other.lstm.forward_layers[0].weight_ih, first.lstm.forward_layers[0].weight_ih)


def test_a_state_dict_describes_its_sizes_and_source() -> None:
    bilm = BiLM(options(n_layers=3), source="somewhere/else")
    assert read_extra_state(bilm.state_dict()["_extra_state"]) == (bilm.options, "somewhere/else")
    BiLM(options(n_layers=3), source="here").load_state_dict(bilm.state_dict())
    with pytest.raises(ConfigurationError, match=r"n_layers=2.*got .*n_layers=3"):
        BiLM(options()).load_state_dict(bilm.state_dict())


def test_the_ids_of_words_are_padded_and_one_beyond_the_vocabulary_names_its_word() -> None:
    bilm = BiLM(options(char_cnn=None, n_tokens_vocab=6))
    assert bilm.ids_of([["a", "bcd"], [], ["ef"]], len).tolist() == [[1, 3], [0, 0], [2, 0]]
    for sentences in ([], [[], []]):
        assert bilm.ids_of(sentences, len).shape == (len(sentences), 0)
        assert bilm(bilm.ids_of(sentences, len)).layers.shape == (3, len(sentences), 2, 16)
    with pytest.raises(ConfigurationError, match="one of the 6 words that the biLM reads, got 'unknown'"):
        bilm.ids_of([["a", "unknown"]], len)


def test_a_bilm_without_a_token_encoder_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="'char_cnn', 'lexicon' or 'n_tokens_vocab'"):
        BiLM(options(char_cnn=None))
