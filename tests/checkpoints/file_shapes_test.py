"""Files of every shape that bilm-tf can write, most of which AllenNLP rejects, against an oracle in NumPy.

`tests.oracles.tensorflow_file` writes them like bilm-tf, and `file_layers` computes from them like TensorFlow.
"""

from pathlib import Path
from typing import Any

import h5py
import pytest
import torch

from elmo_plugin.bilm import BiLM
from elmo_plugin.checkpoints import BilmTf, build_bilm, load_checkpoint
from elmo_plugin.text import batch_to_ids
from tests.checkpoint_oracles import assert_same_state
from tests.oracles import SENTENCES, file_layers, tensorflow_file

CUT = [["a" * 16, "b" * 17, "c" * 18, "d" * 19], ["é" * 9, "日" * 6], ["e" * 300], ["a" * 47, "b" * 48, "c" * 49]]


def lstm(**changes: Any) -> dict[str, Any]:
    """Return the block `lstm` of a small biLM with tight clips; `None` deletes a key."""
    block = {"dim": 12, "projection_dim": 6, "n_layers": 2, "cell_clip": 0.8, "proj_clip": 0.6}
    block = {**block, "use_skip_connections": True, **changes}
    return {key: value for key, value in block.items() if value is not None}


def cnn(**changes: Any) -> dict[str, Any]:
    """Return the block `char_cnn` of a small biLM."""
    block = {"activation": "relu", "embedding": {"dim": 3}, "filters": [[1, 3], [2, 4], [5, 2]]}
    return {**block, "max_characters_per_token": 50, "n_characters": 262, "n_highway": 1, **changes}


SHAPES: dict[str, dict[str, Any]] = {
    "as published": {"lstm": lstm(), "char_cnn": cnn(n_highway=2)},
    "cell size is projection size, one layer": {"lstm": lstm(dim=6, n_layers=1), "char_cnn": cnn()},
    "filters sum to the projection": {"lstm": lstm(), "char_cnn": cnn(filters=[[1, 2], [3, 4]])},
    "no skip connections": {"lstm": lstm(n_layers=3, use_skip_connections=False), "char_cnn": cnn()},
    "clips not mentioned": {"lstm": lstm(cell_clip=None, proj_clip=None), "char_cnn": cnn()},
    "clips of zero": {"lstm": lstm(cell_clip=0, proj_clip=0), "char_cnn": cnn()},
    "three highways, tanh": {"lstm": lstm(), "char_cnn": cnn(n_highway=3, activation="tanh")},
    "C = 20": {"lstm": lstm(), "char_cnn": cnn(max_characters_per_token=20)},
    "a filter as wide as C": {"lstm": lstm(), "char_cnn": cnn(max_characters_per_token=7, filters=[[7, 4]])},
    "a training run's 261 characters": {"lstm": lstm(), "char_cnn": cnn(n_characters=261), "n_tokens_vocab": 7},
}
WORD_SHAPES: dict[str, dict[str, Any]] = {
    "words": {"lstm": lstm(), "n_tokens_vocab": 9},
    "words, vocabulary not mentioned": {"lstm": lstm()},
    "words, no projection": {"lstm": lstm(dim=6, n_layers=1), "char_cnn": None, "n_tokens_vocab": 9},
}


def assert_layers(bilm: BiLM, ids: torch.Tensor, folder: Path, sentences: list[list[Any]]) -> None:
    """Check that every sentence of a batch has the layers that the oracle computes for it alone."""
    layers = bilm(ids).layers  # (L, B, T + 2, D)
    for row, sentence in enumerate(sentences):
        expected = file_layers(folder, sentence).float()  # (L, its own T + 2, D)
        torch.testing.assert_close(layers[:, row, : len(sentence) + 2], expected, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("options", SHAPES.values(), ids=SHAPES)
def test_a_file_has_the_layers_of_the_oracle_and_a_round_trip_loses_nothing(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    (tmp_path / "there").mkdir()
    folder = tensorflow_file(tmp_path / "there", options)
    sentences, bilm = SENTENCES + CUT, build_bilm(load_checkpoint(folder))
    for width in {options["char_cnn"]["max_characters_per_token"], 50}:  # AllenNLP's indexer gives 50
        assert_layers(bilm, batch_to_ids(sentences, width), folder, sentences)
    assert_round_trip(folder, tmp_path / "back")


@pytest.mark.parametrize("options", WORD_SHAPES.values(), ids=WORD_SHAPES)
def test_a_file_with_words_as_input_has_the_layers_of_the_oracle(tmp_path: Path, options: dict[str, Any]) -> None:
    checkpoint = load_checkpoint(tensorflow_file(tmp_path, options, vocabulary=9))
    assert checkpoint.options.n_tokens_vocab == 9
    ids = torch.tensor([[4, 9, 3, 5], [6, 6, 0, 0], [0, 0, 0, 0]])
    assert_layers(build_bilm(checkpoint), ids, tmp_path, [[4, 9, 3, 5], [6, 6], []])
    assert_round_trip(tmp_path, tmp_path / "back")


def test_a_file_of_one_layer_may_lack_tensorflows_multi_cell(tmp_path: Path) -> None:
    options = SHAPES["cell size is projection size, one layer"]
    bilm = build_bilm(load_checkpoint(tensorflow_file(tmp_path, options, one_cell=True)))
    assert_layers(bilm, batch_to_ids(SENTENCES), tmp_path, SENTENCES)


def assert_round_trip(there: Path, back: Path) -> None:
    """The state is the same, except for one rounding of the forget bias, which files store minus one."""
    first = load_checkpoint(there)
    BilmTf().write(first, back)
    again = load_checkpoint(back)
    assert again.options == first.options
    assert_same_state(again.state_dict, first.state_dict, 2.5e-7)
    with h5py.File(there / "weights.hdf5", "r") as expected, h5py.File(back / "weights.hdf5", "r") as actual:
        names: tuple[list[str], list[str]] = ([], [])
        expected.visit(names[0].append)
        actual.visit(names[1].append)
        assert names[0] == names[1]
