"""Weights that are not finite, of an old format, or damaged, in every format; `tests.fuzz` has the attacks."""

import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import pytest
import torch
from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from allennlp.modules.seq2seq_encoders import PassThroughEncoder
from allennlp.modules.token_embedders import ElmoTokenEmbedder

from elmo_plugin import Elmo, load, save
from elmo_plugin.bilm import BiLM, BiLMOptions
from elmo_plugin.checkpoints import BilmTf, Native, build_bilm, load_checkpoint, read_weights
from tests.checkpoint_oracles import assert_rejected, language_model_weights, pretrained
from tests.checkpoints.allennlp_test import assert_same_layers, pack_elmo
from tests.oracles import lively, options, write_files

LSTM = {"type": "lstm", "input_size": 8, "hidden_size": 4, "bidirectional": True}


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


@pytest.fixture
def own_encoder() -> Iterator[str]:
    """Register an encoder of one's own, which takes a number and a string, as another package does."""

    class Repeated(PassThroughEncoder):
        def __init__(self, width: int, note: str = "none") -> None:
            super().__init__(width)
            self.note = note
            self.scale = torch.nn.Parameter(torch.ones(1))

        def get_output_dim(self) -> int:
            return 2 * self.get_input_dim()

        def forward(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return torch.cat([inputs, inputs], dim=-1) * self.scale

    Seq2SeqEncoder.register("repeated")(Repeated)
    yield "repeated"
    del Registrable._registry[Seq2SeqEncoder]["repeated"]


def test_an_encoder_of_ones_own_is_built_from_a_config_at_once_and_from_a_file_without_strings(
    own_encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def saved(config: dict[str, Any]) -> Path:
        sizes = {**options().to_dict(), "contextualizer": {"type": own_encoder, "width": 8, **config}}
        elmo = Elmo(bilm={"options": sizes, "seed": 1}, dropout=0.0)  # a config may use any encoder, with any value
        save(elmo, tmp_path / "bilm.safetensors")
        save(elmo, tmp_path / "hub", to="hub")
        return tmp_path / "bilm.safetensors"

    load(saved({})).embed([["a"]])
    with pytest.raises(ConfigurationError, match=r"contextualizer\.note'.*'/etc/hostname'.*\.CONTEXTUALIZERS"):
        load(saved({"note": "/etc/hostname"}))
    monkeypatch.setattr("elmo_plugin.bilm.registered.CONTEXTUALIZERS", {own_encoder})
    load(saved({"note": "/etc/hostname"})).embed([["a"]])


@pytest.mark.parametrize(
    "config",
    [
        {"type": "elmo_enhanced", "encoder": LSTM, "bilm": "english-tiny"},
        {"type": "elmo_enhanced", "encoder": LSTM, "bilm": {"pretrained": "english-tiny"}},
        {"type": "elmo_enhanced", "encoder": LSTM, "bilm": {"type": "lstm", "pretrained": "english-tiny"}},
        {"type": "compose", "encoders": [{"type": "elmo_enhanced", "encoder": LSTM, "bilm": "english-tiny"}]},
        {"type": "elmo_enhanced", "x": [["english-tiny"]]},
    ],
)
def test_no_string_of_a_file_reaches_an_encoder_that_could_read_another_file(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="expected numbers alone"):
        BiLM(BiLMOptions.from_dict({**options().to_dict(), "contextualizer": config}))


def test_a_tensor_under_two_names_is_rejected_before_it_is_read(tmp_path: Path) -> None:
    weights = torch.zeros(3)
    torch.save({"a": weights, "b": weights}, tmp_path / "best.th")
    with pytest.raises(ConfigurationError, match=r"'name' .*expected each value of a state dict once"):
        read_weights(tmp_path / "best.th", "name")
    torch.save({"a": weights, "b": weights.detach()}, tmp_path / "best.th")  # as `state_dict` returns tied weights
    assert read_weights(tmp_path / "best.th", "name").keys() == {"a", "b"}
