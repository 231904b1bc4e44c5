"""bilm-tf's pair of files: how a pair is found, which files are rejected, and how a pair is written."""

import gzip
import lzma
from pathlib import Path
from typing import Any

import h5py
import pytest
import torch

from elmo_plugin.bilm import BiLM
from elmo_plugin.checkpoints import BilmTf, load_checkpoint
from tests.checkpoint_oracles import WORDS, assert_rejected, assert_same_state, pretrained
from tests.checkpoints.file_tools import flipped
from tests.oracles import lively, options, tensorflow_file, write_files, write_json

BIAS = "CNN_high_0/b_carry"
CELL = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a good pair."""
    write_files(tmp_path, lively(BiLM(options())))
    return tmp_path


def replace_dataset(folder: Path, name: str, value: Any = None) -> None:
    """Give a dataset of the file another value, or delete it."""
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        del file[name]
        if value is not None:
            file[name] = value


def test_a_dataset_that_is_missing_or_has_another_shape_is_named(folder: Path) -> None:
    name, shape, other = f"{CELL}/W_0", (16, 96), (16, 97)
    replace_dataset(folder, name, torch.zeros(other).numpy())
    assert_rejected(folder, folder / "weights.hdf5", f"'{name}'", shape, other)
    replace_dataset(folder, name)
    assert_rejected(folder, folder / "weights.hdf5", f"'{name}'", shape)


def test_a_flipped_bit_in_the_numbers_of_our_file_is_an_error(folder: Path) -> None:
    path = folder / "weights.hdf5"
    content = path.read_bytes()
    with h5py.File(path, "r") as file:
        place = file[f"{CELL}/W_0"].id.get_chunk_info(0).byte_offset
    path.write_bytes(flipped(content, place + 1000))
    assert_rejected(folder, f"'weight_file' {path} is not a complete hdf5 file")


def test_a_model_of_words_needs_its_table_and_of_the_right_size(folder: Path) -> None:
    write_json(folder / "options.json", options(char_cnn=None).to_dict())
    assert_rejected(folder, folder / "weights.hdf5", "'embedding'", "'char_cnn'")
    write_json(folder / "options.json", options(char_cnn=None, n_tokens_vocab=9).to_dict())
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        file["embedding"] = torch.zeros(7, 8).numpy()
    assert_rejected(folder, folder / "weights.hdf5", "'embedding'", (7, 8), (9, 8))


@pytest.mark.parametrize("kept", [0.0, 0.999])
def test_a_file_that_was_cut_short_is_rejected(folder: Path, kept: float) -> None:
    weights = folder / "weights.hdf5"
    content = weights.read_bytes()
    weights.write_bytes(content[: int(kept * len(content))])
    assert_rejected(folder, f"'weight_file' {weights} is not a complete hdf5 file")


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"", "empty file"),
        (b'{"lstm": "\xff\xfe"}', "utf-8"),
        (b"[]", "expected an object, got a list"),
        (b'{"lstm": {"dim": "4", "projection_dim": 2}}', "'lstm.dim'"),
    ],
)
def test_options_that_cannot_be_read_are_named(folder: Path, content: bytes, fact: str) -> None:
    (folder / "options.json").write_bytes(content)
    assert_rejected(folder, f"'options_file' {folder / 'options.json'}: ", fact)


def test_a_folder_without_one_pair_says_what_it_holds(folder: Path) -> None:
    (folder / "old_options.json").write_text("{}", encoding="utf-8")
    assert_rejected(folder, f"'{folder}'", "old_options.json, options.json, weights.hdf5")
    for name in ("old_options.json", "options.json"):
        (folder / name).unlink()
    assert_rejected(folder, f"'{folder}' holds no biLM", "got a folder with weights.hdf5")
    assert_rejected(folder / "weights.hdf5", f"'{folder / 'weights.hdf5'}'", "options.json")


@pytest.mark.parametrize(
    ("file", "dataset"),
    [
        ({"libver": "latest", "userblock_size": 512}, {"chunks": True}),
        ({}, {"compression": "gzip", "shuffle": True}),
        ({}, {"dtype": ">f8"}),
        ({}, {"dtype": "f2"}),
    ],
    ids=str,
)
def test_every_way_in_which_h5py_writes_numbers_is_read(
    folder: Path, file: dict[str, Any], dataset: dict[str, Any]
) -> None:
    expected = load_checkpoint(folder)
    with h5py.File(folder / "weights.hdf5", "r") as old, h5py.File(folder / "new", "w", **file) as new:
        names: list[str] = []
        old.visit(names.append)
        for name in names:
            if isinstance(old[name], h5py.Dataset):
                new.create_dataset(name, data=old[name][...], **dataset)
    (folder / "new").rename(folder / "weights.hdf5")
    tolerance = 1e-3 if dataset.get("dtype") == "f2" else 0.0
    assert_same_state(load_checkpoint(folder).state_dict, expected.state_dict, tolerance)


@pytest.mark.parametrize(
    ("changes", "name", "option"),
    [
        ({"n_highway": 1}, "CNN_high_1/", "'n_highway'"),
        ({"n_layers": 1}, "RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/", "'n_layers'"),
    ],
)
def test_weights_that_the_options_do_not_describe_are_named_with_the_option(
    folder: Path, changes: dict[str, Any], name: str, option: str
) -> None:
    write_json(folder / "options.json", options(**changes).to_dict())
    assert_rejected(folder, folder / "weights.hdf5", f"'{name}", option)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"filters": [[1, 3], [2, 5]]}, "CNN_proj/W_proj"),
        ({"dim": 8}, "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0"),
        ({"char_cnn": None, "n_tokens_vocab": 9}, "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/LayerNorm/gamma"),
        ({"n_layers": 1}, "RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/B"),
    ],
)
def test_no_tensor_is_ignored(tmp_path: Path, changes: dict[str, Any], name: str) -> None:
    folder = tensorflow_file(tmp_path, options(**changes).to_dict())
    load_checkpoint(folder)
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        file[name] = torch.zeros(8, 8).numpy()
    assert_rejected(folder, folder / "weights.hdf5", f"'{name}'")


@pytest.mark.parametrize("changes", [{}, {"char_cnn": None, "n_tokens_vocab": 9}])
def test_variables_that_only_training_or_the_other_input_needs_do_no_harm(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    folder = tensorflow_file(tmp_path, options(**changes).to_dict())
    expected = load_checkpoint(folder)
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        for name in ("softmax/W", "softmax/b", "global_step", "optimizer/W_0/Adagrad", "train_perplexity"):
            file[name] = torch.zeros(3).numpy()
        for name in ("char_embed", "CNN/W_cnn_0") if "char_cnn" in changes else ("embedding",):
            file[name] = torch.zeros(3, 3).numpy()
    assert_same_state(load_checkpoint(folder).state_dict, expected.state_dict)


def test_a_pair_is_found_by_its_folder_or_by_its_weights(folder: Path) -> None:
    with h5py.File(folder / "vectors.hdf5", "w") as file:
        file["0"] = [1.0]
    for options_name, weights, location in [
        ("options.json", "weights.hdf5", "."),
        ("my_options.json", "my_weights.hdf5", "my_weights.hdf5"),
        ("options.json", "lm.h5", "lm.h5"),
    ]:
        next(folder.glob("*options.json")).rename(folder / options_name)
        next(path for path in folder.glob("*.h*5") if path.stem != "vectors").rename(folder / weights)
        assert load_checkpoint(folder / location).options == options()


@pytest.fixture
def words_beside(tmp_path: Path) -> Path:
    """A folder with a pair and its vocabulary."""
    BilmTf().write(pretrained(), tmp_path)
    return tmp_path


def test_a_vocabulary_lies_beside_the_weights_with_one_word_per_line(words_beside: Path) -> None:
    assert (words_beside / "vocabulary.txt").read_bytes().split(b"\n") == [*(word.encode() for word in WORDS), b""]
    for place in (words_beside, words_beside / "weights.hdf5"):
        assert load_checkpoint(place).vocabulary == WORDS
    (words_beside / "vocabulary.txt").unlink()
    assert load_checkpoint(words_beside).vocabulary is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"<S>\n\n</S>", ["<S>", "", "</S>"]),
        (b"\xef\xbb\xbf<S>\r\n</S>\r\n", ["<S>", "</S>"]),
        ("a\x85b\u2028\n\x0b\n".encode(), ["a\x85b\u2028", "\x0b"]),
    ],
)
def test_a_line_ends_at_a_line_feed_and_nowhere_else(words_beside: Path, content: bytes, words: list[str]) -> None:
    (words_beside / "vocabulary.txt").write_bytes(content)
    assert load_checkpoint(words_beside).vocabulary == words


@pytest.mark.parametrize(
    ("content", "fact"),
    [(b"<S>\n\xff\n", "0xff"), (gzip.compress(b"<S>\n", mtime=0)[:-5], "vocabulary"), (lzma.compress(b"a"), "unxz")],
)
def test_a_vocabulary_that_is_not_plain_text_is_named(words_beside: Path, content: bytes, fact: str) -> None:
    """A compressed file could fill the memory."""
    (words_beside / "vocabulary.txt").write_bytes(content)
    assert_rejected(words_beside, "vocabulary.txt", fact)
