"""bilm-tf's pair of files: how a pair is found, which files are rejected, and how a pair is written."""

import json
from pathlib import Path
from typing import Any

import h5py
import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import BiLM, warm_up
from elmo_plugin.checkpoints import BilmTf, Checkpoint, build_bilm, load_checkpoint
from elmo_plugin.text import batch_to_ids
from tests.checkpoint_oracles import assert_rejected, assert_same_state
from tests.checkpoints.file_tools import contents, flipped
from tests.full_disk import disk_of
from tests.oracles import SENTENCES, lively, options, tensorflow_file, write_files, write_json

BIAS = "CNN_high_0/b_carry"
CELL = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"
DATASETS = {
    "char_embed": (261, 4),
    "CNN/W_cnn_1": (1, 2, 4, 8),
    "CNN/b_cnn_2": (8,),
    "CNN_high_0/W_carry": (20, 20),
    "CNN_high_1/b_transform": (20,),
    "CNN_proj/W_proj": (20, 8),
    "CNN_proj/b_proj": (8,),
    f"{CELL}/W_0": (16, 96),
    f"{CELL}/B": (96,),
    f"{CELL}/W_P_0": (24, 8),
}


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


@pytest.mark.parametrize(("name", "shape"), DATASETS.items())
def test_a_dataset_that_is_missing_or_has_another_shape_is_named(
    folder: Path, name: str, shape: tuple[int, ...]
) -> None:
    other = (*shape[:-1], shape[-1] + 1)
    replace_dataset(folder, name, torch.zeros(other).numpy())
    assert_rejected(folder, folder / "weights.hdf5", f"'{name}'", shape, other)
    replace_dataset(folder, name)
    assert_rejected(folder, folder / "weights.hdf5", f"'{name}'", shape)
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        file.create_group(name)
    assert_rejected(folder, folder / "weights.hdf5", f"'{name}'", shape)


def test_options_of_another_model_are_rejected_by_the_first_dataset_that_differs(folder: Path) -> None:
    write_json(folder / "options.json", options(n_layers=3).to_dict())
    assert_rejected(folder, "'RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/W_0'", (16, 96))


@pytest.mark.parametrize("name", [BIAS, "embedding", "of/no/use"])
def test_a_link_to_another_file_is_rejected_before_that_file_is_opened(folder: Path, name: str) -> None:
    """This holds at any depth, even for datasets that are never read."""
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        if name in file:
            del file[name]
        file[name] = h5py.ExternalLink("/dev/zero", "b_carry")
    assert_rejected(folder, folder / "weights.hdf5", f"'{name}'", "/dev/zero")


@pytest.mark.parametrize("kind", ["external", "virtual", "infinite"])
def test_numbers_that_are_in_another_file_or_not_finite_are_rejected(folder: Path, kind: str) -> None:
    (folder / "secret").write_bytes(b"\0" * 80)
    replace_dataset(folder, BIAS)
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        if kind == "external":
            file.create_dataset(BIAS, (20,), "float32", external=[(str(folder / "secret"), 0, 80)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout((20,), "float32")
            layout[:] = h5py.VirtualSource(str(folder / "secret"), "any", (20,))
            file.create_virtual_dataset(BIAS, layout)
        else:
            file[BIAS] = torch.full((20,), torch.inf).numpy()
    assert_rejected(folder, folder / "weights.hdf5", f"'{BIAS}'", "finite" if kind == "infinite" else "another file")


def test_a_flipped_bit_is_an_error_in_the_numbers_of_our_file_and_never_a_wrong_number(folder: Path) -> None:
    path = folder / "weights.hdf5"
    content, expected = path.read_bytes(), load_checkpoint(folder)
    with h5py.File(path, "r") as file:
        place = file[f"{CELL}/W_0"].id.get_offset()
    for offset in [place, place + 1000, *range(0, len(content), 997)]:
        path.write_bytes(flipped(content, offset))
        try:
            found = load_checkpoint(folder)
        except ConfigurationError as error:
            assert str(error.message).startswith(f"'weight_file' {path}"), offset
        else:
            assert offset not in (place, place + 1000)
            assert_same_state(found.state_dict, expected.state_dict)


def test_options_that_no_machine_can_hold_are_rejected_at_once(folder: Path) -> None:
    content = options().to_dict()
    content["lstm"]["dim"] = 10**12
    write_json(folder / "options.json", content)
    assert_rejected(folder, f"'options_file' {folder / 'options.json'}: ", "the options ask for 304,")


def test_a_model_of_words_needs_its_table_and_of_the_right_size(folder: Path) -> None:
    write_json(folder / "options.json", options(char_cnn=None).to_dict())
    assert_rejected(folder, folder / "weights.hdf5", "'embedding'", "'char_cnn'")
    write_json(folder / "options.json", options(char_cnn=None, n_tokens_vocab=9).to_dict())
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        file["embedding"] = torch.zeros(7, 8).numpy()
    assert_rejected(folder, folder / "weights.hdf5", "'embedding'", (7, 8), (9, 8))


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.999])
def test_a_file_that_was_cut_short_is_rejected(folder: Path, kept: float) -> None:
    weights = folder / "weights.hdf5"
    content = weights.read_bytes()
    weights.write_bytes(content[: int(kept * len(content))])
    assert_rejected(folder, f"'weight_file' {weights} is not a complete hdf5 file")


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"", "empty file"),
        (b"{'lstm': {}}", "property name"),
        (b'{"lstm": "\xff\xfe"}', "utf-8"),
        (b"[]", "'lstm'"),
        (b'{"char_cnn": null}', "'lstm'"),
        (b'{"lstm": {"dim": 4}}', "'lstm.projection_dim'"),
        (b'{"lstm": {"dim": "4", "projection_dim": 2}}', "'lstm.dim'"),
    ],
)
def test_options_that_cannot_be_read_are_named(folder: Path, content: bytes, fact: str) -> None:
    (folder / "options.json").write_bytes(content)
    assert_rejected(folder, f"'options_file' {folder / 'options.json'}: ", fact)


def test_a_file_that_does_not_exist_is_named_by_its_key(folder: Path) -> None:
    good, other = (folder / "options.json", folder / "weights.hdf5"), folder / "other.hdf5"
    for key, pair, path in (
        ("options_file", (other, good[1]), other),
        ("weight_file", (good[0], other), other),
        ("options_file", (folder, good[1]), folder),
        ("weight_file", (good[0], folder), folder),
    ):
        with pytest.raises(ConfigurationError, match=f"'{key}'.*{path}"):
            BilmTf().read_pair(*pair)


def test_a_folder_without_one_pair_says_what_it_holds(folder: Path) -> None:
    (folder / "old_options.json").write_text("{}", encoding="utf-8")
    assert_rejected(folder, f"'{folder}'", "old_options.json, options.json, weights.hdf5")
    for name in ("old_options.json", "options.json"):
        (folder / name).unlink()
    assert_rejected(folder, f"'{folder}'", "got weights.hdf5")
    assert_rejected(folder / "weights.hdf5", f"'{folder / 'weights.hdf5'}'", "options.json")


@pytest.mark.parametrize(
    ("options_name", "weights_name", "location"),
    [
        ("options.json", "weights.hdf5", "."),
        ("options.json", "weights.hdf5", "weights.hdf5"),
        ("my_options.json", "my_weights.hdf5", "."),
        ("my_options.json", "my_weights.hdf5", "my_weights.hdf5"),
        ("options.json", "lm_weights.hdf5", "."),
        ("options.json", "lm.h5", "lm.h5"),
    ],
)
def test_a_pair_is_found_by_its_folder_or_by_its_weights(
    folder: Path, options_name: str, weights_name: str, location: str
) -> None:
    (folder / "options.json").rename(folder / options_name)
    (folder / "weights.hdf5").rename(folder / weights_name)
    assert load_checkpoint(folder / location).options == options()
    assert load_checkpoint(str(folder / location)).options == options()


def test_other_hdf5_files_may_lie_beside_the_weights(folder: Path) -> None:
    with h5py.File(folder / "vectors.hdf5", "w") as file:
        file["0"] = [1.0]
    assert load_checkpoint(folder).options == options()


def test_double_precision_is_read_as_single(folder: Path) -> None:
    expected = load_checkpoint(folder).state_dict["token_encoder.projection.weight"]
    replace_dataset(folder, "CNN_proj/W_proj", expected.t().double().numpy())
    found = load_checkpoint(folder).state_dict["token_encoder.projection.weight"]
    assert found.dtype == torch.float32 and torch.equal(found, expected)


def test_a_warm_state_is_written_and_read_back(tmp_path: Path) -> None:
    bilm = lively(BiLM(options()))
    bilm.warm_state = warm_up(bilm, [batch_to_ids(SENTENCES)])
    write_files(tmp_path, bilm)
    again = build_bilm(load_checkpoint(tmp_path))
    assert again.warm_state is not None and bilm.warm_state is not None
    for found, expected in zip(again.warm_state, bilm.warm_state, strict=True):
        assert torch.equal(found, expected)
    with h5py.File(tmp_path / "weights.hdf5", "r") as file:
        assert {name: part.shape for name, part in file["warm_state"].items()} == {
            "hidden": (2, 2, 1, 8),
            "cell": (2, 2, 1, 24),
        }


def test_a_warm_state_of_another_size_is_rejected(folder: Path) -> None:
    assert build_bilm(load_checkpoint(folder)).warm_state is None
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        file["warm_state/hidden"] = torch.zeros(2, 2, 1, 9).numpy()
        file["warm_state/cell"] = torch.zeros(2, 2, 1, 24).numpy()
    assert_rejected(folder, "'warm_state/hidden'", (2, 2, 1, 9), (2, 2, 1, 8))


def test_half_a_warm_state_is_rejected(folder: Path) -> None:
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        file["warm_state/hidden"] = torch.zeros(2, 2, 1, 8).numpy()
    with pytest.raises(ConfigurationError, match=f"(?s)'{folder}'.*warm_cell"):
        build_bilm(load_checkpoint(folder), source=folder)


def test_what_is_built_knows_its_source_and_has_a_state_of_its_own(folder: Path) -> None:
    checkpoint = load_checkpoint(folder)
    bilm = build_bilm(checkpoint, source=folder)
    assert bilm.source == str(folder)
    before = checkpoint.state_dict["token_encoder.projection.bias"].clone()
    with torch.no_grad():
        for parameter in bilm.parameters():
            parameter.add_(1.0)
    assert torch.equal(checkpoint.state_dict["token_encoder.projection.bias"], before)
    assert "_extra_state" not in checkpoint.state_dict


def test_options_that_are_written_say_262_characters(folder: Path) -> None:
    written = json.loads((folder / "options.json").read_text(encoding="utf-8"))
    assert written == options().to_dict() and written["char_cnn"]["n_characters"] == 262


def test_writing_that_fails_leaves_the_old_pair(folder: Path) -> None:
    """The missing half of the weights is noticed after the first half is written."""
    before, other = contents(folder), BiLM(options(n_layers=3))
    broken = other.state_dict()
    del broken["lstm.backward_layers.2.bias"]
    with pytest.raises(KeyError):
        BilmTf().write(Checkpoint(other.options, broken), folder)
    assert contents(folder) == before
    write_files(folder, other)
    assert load_checkpoint(folder).options == other.options
    assert contents(folder).keys() == before.keys()


def test_a_full_disk_leaves_the_old_pair_and_nothing_else(folder: Path) -> None:
    before = contents(folder)
    with disk_of(8192), pytest.raises(ConfigurationError, match=f"'{folder}' cannot be written: .*File too large"):
        write_files(folder, BiLM(options(n_layers=3)))
    assert contents(folder) == before


def test_writing_makes_the_folder_or_names_it(folder: Path) -> None:
    before, bilm = contents(folder), BiLM(options())
    for target in (folder / "weights.hdf5", folder / "weights.hdf5/below"):
        with pytest.raises(ConfigurationError, match=f"'{target}' cannot be written: "):
            write_files(target, bilm)
    assert contents(folder) == before
    write_files(folder / "a" / "b", bilm)
    assert load_checkpoint(folder / "a" / "b").options == bilm.options


def test_half_precision_is_written_as_single(tmp_path: Path) -> None:
    bilm = lively(BiLM(options())).to(torch.bfloat16)
    write_files(tmp_path, bilm)
    found = load_checkpoint(tmp_path).state_dict["token_encoder.projection.weight"]
    assert torch.equal(found, bilm.token_encoder.projection.weight.float())


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"filters": [[1, 3], [2, 5]]}, "CNN_proj/W_proj"),
        ({"dim": 8}, "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0"),
        ({"dim": 8, "char_cnn": None, "n_tokens_vocab": 9}, "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0"),
    ],
)
def test_a_projection_between_equal_sizes_is_not_ignored(tmp_path: Path, changes: dict[str, Any], name: str) -> None:
    folder = tensorflow_file(tmp_path, options(**changes).to_dict())
    load_checkpoint(folder)
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        file[name] = torch.zeros(8, 8).numpy()
    assert_rejected(folder, folder / "weights.hdf5", "no projection", f"'{name}'")
