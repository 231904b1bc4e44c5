"""bilm-tf's pair of files: what is found, what is refused and how the message says so, and how it is written."""

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
from tests.full_disk import disk_of
from tests.oracles import SENTENCES, lively, options, tensorflow_file, write_files, write_json

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


def refusal(location: Path) -> str:
    """The message with which a location is refused."""
    with pytest.raises(ConfigurationError) as error:
        load_checkpoint(location)
    return str(error.value.message)


def replace_dataset(folder: Path, name: str, value: Any = None) -> None:
    """Give a dataset of the file another value, or take it away."""
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        del file[name]
        if value is not None:
            file[name] = value


@pytest.mark.parametrize(("name", "shape"), DATASETS.items())
def test_a_missing_dataset_is_named_with_its_shape(folder: Path, name: str, shape: tuple[int, ...]) -> None:
    replace_dataset(folder, name)
    wanted = f"'weight_file' {folder / 'weights.hdf5'}: dataset '{name}' is missing; wanted shape {shape}"
    assert refusal(folder) == wanted


@pytest.mark.parametrize(("name", "shape"), DATASETS.items())
def test_a_dataset_of_another_shape_is_named_with_both_shapes(folder: Path, name: str, shape: tuple[int, ...]) -> None:
    other = (*shape[:-1], shape[-1] + 1)
    replace_dataset(folder, name, torch.zeros(other).numpy())
    wanted = f"dataset '{name}' has shape {other}; the options want {shape}"
    assert refusal(folder) == f"'weight_file' {folder / 'weights.hdf5'}: {wanted}"


def test_options_of_another_model_are_refused_by_the_first_dataset_that_differs(folder: Path) -> None:
    write_json(folder / "options.json", options(n_layers=3).to_dict())
    assert "dataset 'RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/W_0' is missing; wanted shape (16, 96)" in refusal(folder)


def test_a_group_where_a_dataset_should_be_is_no_dataset(folder: Path) -> None:
    replace_dataset(folder, "char_embed")
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        file.create_group("char_embed")
    assert "dataset 'char_embed' is missing; wanted shape (261, 4)" in refusal(folder)


def test_a_file_that_links_to_another_is_refused_before_that_is_opened(folder: Path) -> None:
    """At any depth, also where nothing is read."""
    h5py.File(folder / "other.h5", "w").create_dataset("b_carry", data=torch.ones(20).numpy())
    for name in ("CNN_high_0/b_carry", "embedding", "of/no/use"):
        with h5py.File(folder / "weights.hdf5", "r+") as file:
            if name in file:
                del file[name]
            file[name] = h5py.ExternalLink("/dev/zero", "b_carry")
        wanted = f"'weight_file' {folder / 'weights.hdf5'}: '{name}' is a link to another file, /dev/zero"
        assert refusal(folder) == wanted
        with h5py.File(folder / "weights.hdf5", "r+") as file:
            del file[name]


@pytest.mark.parametrize("kind", ["external", "virtual"])
def test_numbers_that_are_in_another_file_are_refused(folder: Path, kind: str) -> None:
    (folder / "secret").write_bytes(b"\0" * 80)
    replace_dataset(folder, "CNN_high_0/b_carry")
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        if kind == "external":
            place = [(str(folder / "secret"), 0, 80)]
            file.create_dataset("CNN_high_0/b_carry", (20,), "float32", external=place)
        else:
            layout = h5py.VirtualLayout((20,), "float32")
            layout[:] = h5py.VirtualSource(str(folder / "secret"), "any", (20,))
            file.create_virtual_dataset("CNN_high_0/b_carry", layout)
    said = "the numbers of dataset 'CNN_high_0/b_carry' are in another file"
    assert refusal(folder) == f"'weight_file' {folder / 'weights.hdf5'}: {said}"


def test_numbers_that_are_not_finite_are_refused(folder: Path) -> None:
    replace_dataset(folder, "CNN_high_0/b_carry", torch.full((20,), torch.inf).numpy())
    said = "dataset 'CNN_high_0/b_carry' holds numbers that are not finite"
    assert refusal(folder) == f"'weight_file' {folder / 'weights.hdf5'}: {said}"


def test_a_flipped_bit_in_the_numbers_of_a_file_of_ours_is_an_error_and_elsewhere_one_or_no_harm(folder: Path) -> None:
    path = folder / "weights.hdf5"
    content, wanted = path.read_bytes(), load_checkpoint(folder)
    with h5py.File(path, "r") as file:
        place = file[f"{CELL}/W_0"].id.get_offset()
    for offset in [place, place + 1000, *range(0, len(content), 997)]:
        path.write_bytes(content[:offset] + bytes([content[offset] ^ 64]) + content[offset + 1 :])
        try:
            found = load_checkpoint(folder)
        except ConfigurationError as error:
            assert str(error.message).startswith(f"'weight_file' {path}"), offset
        else:
            assert offset not in (place, place + 1000)
            assert all(torch.equal(found.state_dict[name], value) for name, value in wanted.state_dict.items()), offset


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dim": 10**12}, "the options ask for 304,"),
        ({"n_layers": 10**9}, "'lstm.n_layers' is 1000000000; wanted at most 1,000"),
        ({"n_highway": 10**9}, "'char_cnn.n_highway' is 1000000000; wanted at most 1,000"),
        ({"filters": [[1, 10**7]], "n_highway": 1}, "the options ask for 200,000,"),
        (
            {"max_characters_per_token": 10**9},
            "'char_cnn.max_characters_per_token' is 1000000000; wanted at most 10,000",
        ),
    ],
)
def test_options_that_no_machine_can_hold_are_refused_at_once(folder: Path, change: dict[str, Any], said: str) -> None:
    content = options().to_dict()
    for key, value in change.items():
        content["lstm" if key in content["lstm"] else "char_cnn"][key] = value
    write_json(folder / "options.json", content)
    assert refusal(folder).startswith(f"'options_file' {folder / 'options.json'}: {said}")


def test_a_model_of_words_without_its_table_says_so(folder: Path) -> None:
    write_json(folder / "options.json", options(char_cnn=None).to_dict())
    message = refusal(folder)
    assert str(folder / "weights.hdf5") in message
    assert "no dataset 'embedding'" in message and "no 'char_cnn'" in message


def test_a_vocabulary_of_another_size_is_refused(folder: Path) -> None:
    write_json(folder / "options.json", options(char_cnn=None, n_tokens_vocab=9).to_dict())
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        file["embedding"] = torch.zeros(7, 8).numpy()
    assert "dataset 'embedding' has shape (7, 8); the options want (9, 8)" in refusal(folder)


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.999])
def test_a_file_that_was_cut_short_is_refused(folder: Path, kept: float) -> None:
    weights = folder / "weights.hdf5"
    content = weights.read_bytes()
    weights.write_bytes(content[: int(kept * len(content))])
    assert refusal(folder).startswith(f"'weight_file' {weights} is no complete hdf5 file: ")


def test_a_file_of_another_kind_is_refused(folder: Path) -> None:
    (folder / "weights.hdf5").write_text("<html>404</html>", encoding="utf-8")
    assert f"'weight_file' {folder / 'weights.hdf5'} is no complete hdf5 file: " in refusal(folder)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is an empty file"),
        (b"{'lstm': {}}", "Expecting property name"),
        (b'{"lstm": {"dim": 4}', "Expecting ',' delimiter"),
        (b'{"lstm": "\xff\xfe"}', "'utf-8' codec can't decode"),
        (b"[]", "the options are list; wanted an object with the key 'lstm'"),
        (b'{"char_cnn": null}', "the key 'lstm' is missing; found ['char_cnn']"),
        (b'{"lstm": {"dim": 4}}', "the key 'lstm.projection_dim' is missing; found ['dim']"),
        (b'{"lstm": {"dim": "4", "projection_dim": 2}}', "'lstm.dim' is '4'; wanted a whole number of 1 or more"),
    ],
)
def test_options_that_cannot_be_read_are_named(folder: Path, content: bytes, said: str) -> None:
    (folder / "options.json").write_bytes(content)
    message = refusal(folder)
    assert message.startswith(f"'options_file' {folder / 'options.json'}: ")
    assert said in message


def test_a_file_that_is_not_there_is_named_by_its_key(folder: Path) -> None:
    good = [folder / "options.json", folder / "weights.hdf5"]
    for key, pair in {
        "options_file": [folder / "other.json", good[1]],
        "weight_file": [good[0], folder / "other.hdf5"],
    }.items():
        with pytest.raises(ConfigurationError) as error:
            BilmTf().read_pair(*pair)
        assert f"'{key}' is '{folder / 'other'}" in str(error.value)
    with pytest.raises(ConfigurationError, match=f"'options_file' {folder}: .*directory"):
        BilmTf().read_pair(folder, good[1])
    with pytest.raises(ConfigurationError, match=f"'weight_file' {folder} is no complete hdf5 file"):
        BilmTf().read_pair(good[0], folder)


def test_weights_without_options_beside_them_ask_for_the_options(folder: Path) -> None:
    (folder / "options.json").rename(folder / "sizes.json")
    message = refusal(folder / "weights.hdf5")
    assert f"'{folder / 'weights.hdf5'}'" in message and "options.json" in message


def test_a_folder_without_one_pair_says_what_it_holds(folder: Path) -> None:
    (folder / "old_options.json").write_text("{}", encoding="utf-8")
    message = refusal(folder)
    assert message.startswith(f"'{folder}': wanted one *options*.json and one *weights.hdf5, found ")
    assert "old_options.json, options.json, weights.hdf5" in message
    for name in ("old_options.json", "options.json"):
        (folder / name).unlink()
    assert "found weights.hdf5" in refusal(folder)


def test_a_location_that_holds_no_format_says_which_there_are(tmp_path: Path) -> None:
    message = refusal(tmp_path)
    assert all(name in message for name in ("allennlp", "bilm-tf", "many-langs", "native"))
    assert message.endswith("got a folder with nothing in it")
    (tmp_path / "notes.txt").touch()
    assert refusal(tmp_path).endswith("got a folder with notes.txt")
    message = refusal(tmp_path / "nowhere")
    assert f"'{tmp_path / 'nowhere'}' holds no biLM" in message and message.endswith("no such file or folder")


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
    wanted = load_checkpoint(folder).state_dict["token_encoder.projection.weight"]
    replace_dataset(folder, "CNN_proj/W_proj", wanted.t().double().numpy())
    found = load_checkpoint(folder).state_dict["token_encoder.projection.weight"]
    assert found.dtype == torch.float32 and torch.equal(found, wanted)


def test_a_warm_state_is_written_and_read_back(tmp_path: Path) -> None:
    bilm = lively(BiLM(options()))
    bilm.warm_state = warm_up(bilm, [batch_to_ids(SENTENCES)])
    write_files(tmp_path, bilm)
    again = build_bilm(load_checkpoint(tmp_path))
    assert again.warm_state is not None and bilm.warm_state is not None
    for found, wanted in zip(again.warm_state, bilm.warm_state, strict=True):
        assert torch.equal(found, wanted)
    with h5py.File(tmp_path / "weights.hdf5", "r") as file:
        assert {name: part.shape for name, part in file["warm_state"].items()} == {
            "hidden": (2, 2, 1, 8),
            "cell": (2, 2, 1, 24),
        }


def test_a_biLM_without_a_warm_state_has_none_after_reading(folder: Path) -> None:
    assert build_bilm(load_checkpoint(folder)).warm_state is None


def test_a_warm_state_of_another_size_is_refused(folder: Path) -> None:
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        file["warm_state/hidden"] = torch.zeros(2, 2, 1, 9).numpy()
        file["warm_state/cell"] = torch.zeros(2, 2, 1, 24).numpy()
    assert "dataset 'warm_state/hidden' has shape (2, 2, 1, 9); the options want (2, 2, 1, 8)" in refusal(folder)


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
    """Half of the weights are there when the other half turns out to be missing."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    broken = BiLM(options(n_layers=3)).state_dict()
    del broken["lstm.backward_layers.2.bias"]
    with pytest.raises(KeyError):
        BilmTf().write(Checkpoint(options(n_layers=3), broken), folder)
    assert {name: (folder / name).read_bytes() for name in before} == before
    load_checkpoint(folder)
    other = BiLM(options(n_layers=3))
    BilmTf().write(Checkpoint(other.options, other.state_dict()), folder)
    assert load_checkpoint(folder).options == other.options
    assert {path.name for path in folder.iterdir()} == set(before)


def test_a_full_disk_leaves_the_old_pair_and_nothing_else(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    other = BiLM(options(n_layers=3))
    with disk_of(8192), pytest.raises(ConfigurationError, match=f"'{folder}' cannot be written: .*File too large"):
        BilmTf().write(Checkpoint(other.options, other.state_dict()), folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_that_cannot_be_made_is_named(folder: Path) -> None:
    before, bilm = set(folder.iterdir()), BiLM(options())
    for target in (folder / "weights.hdf5", folder / "weights.hdf5/below"):
        with pytest.raises(ConfigurationError, match=f"'{target}' cannot be written: "):
            BilmTf().write(Checkpoint(bilm.options, bilm.state_dict()), target)
    assert set(folder.iterdir()) == before


def test_writing_makes_the_folder(tmp_path: Path) -> None:
    bilm = BiLM(options())
    BilmTf().write(Checkpoint(bilm.options, bilm.state_dict()), tmp_path / "a" / "b")
    assert load_checkpoint(tmp_path / "a" / "b").options == bilm.options


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
def test_a_projection_that_the_sizes_do_not_want_is_not_passed_over(
    tmp_path: Path, changes: dict[str, Any], name: str
) -> None:
    folder = tensorflow_file(tmp_path, options(**changes).to_dict())
    load_checkpoint(folder)
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        file[name] = torch.zeros(8, 8).numpy()
    assert f"found the projection '{name}'; the options' sizes want none" in refusal(folder)
