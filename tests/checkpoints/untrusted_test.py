"""Weights that are not finite, of an old format, or damaged, in every format; `tests.fuzz` has the attacks."""

import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.token_embedders import ElmoTokenEmbedder

from elmo_plugin.bilm import BiLM, BiLMOptions
from elmo_plugin.checkpoints import BilmTf, Checkpoint, Native, build_bilm, load_checkpoint, read_weights
from tests.checkpoint_oracles import assert_rejected, language_model_weights, pretrained
from tests.checkpoints.allennlp_test import assert_same_layers, pack_elmo
from tests.oracles import lively, options, write_files


def native(folder: Path, value: float) -> Path:
    checkpoint = pretrained()
    checkpoint.state_dict["token_encoder.projection.bias"][1] = value
    Native().write(checkpoint, folder / "bilm.safetensors")
    return folder / "bilm.safetensors"


def bilm_tf(folder: Path, value: float) -> Path:
    BilmTf().write(pretrained()._replace(vocabulary=None), folder)
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        values = file["CNN_proj/b_proj"][...]
        values[1] = value
        del file["CNN_proj/b_proj"]
        file["CNN_proj/b_proj"] = values
    return folder / "weights.hdf5"


def run(folder: Path, value: float) -> Path:
    weights = language_model_weights(pretrained())
    weights["bilm.lstm.forward_layers.0.bias"][1] = value
    torch.save(weights, folder / "best.th")
    return folder


NAMES: dict[Callable[[Path, float], Path], str] = {
    native: "bilm.token_encoder.projection.bias",
    bilm_tf: "CNN_proj/b_proj",
    run: "bilm.lstm.forward_layers.0.bias",
}


@pytest.mark.parametrize("write", NAMES)
def test_weights_that_are_not_finite_are_named(tmp_path: Path, write: Callable[[Path, float], Path]) -> None:
    path = write(tmp_path, torch.nan)
    assert_rejected(path, path, NAMES[write], "finite")


def test_a_torch_file_of_before_version_1_6_is_read(tmp_path: Path) -> None:
    """AllenNLP up to 1.0 saved its archives in this format."""
    embedder = ElmoTokenEmbedder(*write_files(tmp_path / "pair", lively(BiLM(options()))))
    pack_elmo(tmp_path / "model.tar.gz", embedder, None, tmp_path / "pair/options.json")
    folder = tmp_path / "packed"
    torch.save(torch.load(folder / "weights.th"), folder / "weights.th", _use_new_zipfile_serialization=False)
    (folder / "fta").mkdir()
    (tmp_path / "pair/options.json").rename(folder / "fta/model.elmo.options_file")
    (folder / "fta/model.elmo.weight_file").write_bytes(b"not read")
    with tarfile.open(tmp_path / "old.tar.gz", "w:gz") as archive:
        archive.add(folder, ".")
    assert_same_layers(build_bilm(load_checkpoint(tmp_path / "old.tar.gz")), embedder)
    (folder / "weights.th").write_bytes((folder / "weights.th").read_bytes()[:1000])
    assert_rejected(folder, f"'{folder / 'weights.th'}' holds no readable weights")


@pytest.mark.parametrize(
    "odd",
    [lambda value: value.to_sparse(), lambda value: value.to("meta"), lambda value: value.to(torch.complex64), print],
    ids=["sparse", "meta", "complex", "function"],
)
def test_weights_that_are_no_plain_numbers_are_rejected(tmp_path: Path, odd: Callable[[object], object]) -> None:
    weights = language_model_weights(pretrained())
    key = "bilm.token_encoder.projection.weight"
    torch.save({**weights, key: odd if odd is print else odd(weights[key])}, tmp_path / "best.th")
    assert_rejected(tmp_path, tmp_path / "best.th", "readable weights")


@pytest.mark.parametrize("as_zip", [True, False])
def test_each_folder_of_an_archive_counts_as_a_file(tmp_path: Path, as_zip: bool) -> None:
    """200 empty files alone are within the limit."""
    for depth in (1, 15):
        names = ["/".join([*(f"{number}-{level}" for level in range(1, depth)), str(number)]) for number in range(200)]
        path = tmp_path / "bilm.archive"
        if as_zip:
            with zipfile.ZipFile(path, "w") as archive:
                for name in names:
                    archive.writestr(name, b"")
        else:
            with tarfile.open(path, "w:gz") as archive:
                for name in names:
                    archive.addfile(tarfile.TarInfo(name))
        assert_rejected(path, "got a folder with" if depth == 1 else "expected at most")


def test_an_encoder_that_is_not_in_the_list_is_not_built_from_a_file_until_its_package_adds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lstm = {"type": "lstm", "input_size": 8, "hidden_size": 8, "bidirectional": True}
    bilm = BiLM(BiLMOptions.from_dict({**options().to_dict(), "contextualizer": lstm}))
    weights = {name: value for name, value in bilm.state_dict().items() if name != "_extra_state"}
    Native().write(Checkpoint(bilm.options, weights), tmp_path / "bilm.safetensors")
    build_bilm(load_checkpoint(tmp_path / "bilm.safetensors"))
    monkeypatch.setattr("elmo_plugin.bilm.contextualizer.CONTEXTUALIZERS", set())
    with pytest.raises(ConfigurationError, match=r"contextualizer\.type'.*'lstm'.*\.CONTEXTUALIZERS"):
        build_bilm(load_checkpoint(tmp_path / "bilm.safetensors"))
    monkeypatch.setattr("elmo_plugin.bilm.contextualizer.CONTEXTUALIZERS", {"lstm"})
    build_bilm(load_checkpoint(tmp_path / "bilm.safetensors"))


def test_a_tensor_under_two_names_is_rejected_before_it_is_read(tmp_path: Path) -> None:
    weights = torch.zeros(3)
    torch.save({"a": weights, "b": weights}, tmp_path / "best.th")
    with pytest.raises(ConfigurationError, match=r"'name' .*expected each value of a state dict once"):
        read_weights(tmp_path / "best.th", "name")
    torch.save({"a": weights, "b": weights.detach()}, tmp_path / "best.th")  # as `state_dict` returns tied weights
    assert read_weights(tmp_path / "best.th", "name").keys() == {"a", "b"}
