"""Other people's AllenNLP archives: the biLM of `elmo_token_embedder` inside them."""

import tarfile
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
from allennlp.modules.token_embedders import ElmoTokenEmbedder
from torch import nn

from elmo_plugin.bilm import BiLM
from elmo_plugin.checkpoints import build_bilm, convert, load_checkpoint
from elmo_plugin.text import batch_to_ids
from tests.checkpoint_oracles import assert_rejected, assert_same_state
from tests.oracles import SENTENCES, lively, options, reference_layers, write_files, write_json

PLACE = "text_field_embedder.token_embedder_elmo"


@pytest.fixture
def embedder(tmp_path: Path) -> ElmoTokenEmbedder:
    """Return AllenNLP's embedder on the files in `pair`, fine-tuned, so that no file holds its weights."""
    made = ElmoTokenEmbedder(*write_files(tmp_path / "pair", lively(BiLM(options()))))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(1.01)
    return made


def write_archive(
    path: Path, embedder: nn.Module, options_file: Optional[str], packed: Optional[Path] = None, **others: nn.Module
) -> Path:
    """Write a `model.tar.gz` of a model with the embedder; `packed` is an options file to pack as AllenNLP 0.x did."""
    folder = path.parent / "packed"
    folder.mkdir(exist_ok=True)
    modules = {PLACE: embedder, "encoder": nn.Linear(2, 2), **others}
    weights = {
        f"{place}.{name}": value for place, module in modules.items() for name, value in module.state_dict().items()
    }
    torch.save(weights, folder / "weights.th")
    elmo = {"type": "elmo_token_embedder", **({} if options_file is None else {"options_file": options_file})}
    write_json(folder / "config.json", {"model": {"text_field_embedder": {"token_embedders": [{"elmo": elmo}]}}})
    with tarfile.open(path, "w:gz") as archive:
        for name in ("config.json", "weights.th"):
            archive.add(folder / name, name)
        if packed is not None:
            archive.add(packed, "fta/model.text_field_embedder.token_embedders.elmo.options_file")
    return path


def assert_same_layers(found: BiLM, embedder: Any) -> None:
    ids = batch_to_ids(SENTENCES[:2])
    torch.testing.assert_close(found(ids).layers, reference_layers(embedder._elmo, ids), rtol=0, atol=1e-5)


@pytest.mark.parametrize("is_packed", [False, True])
def test_its_layers_are_those_of_the_trained_model(
    tmp_path: Path, embedder: ElmoTokenEmbedder, is_packed: bool
) -> None:
    """A packed options file takes precedence over the config's. The folder of a run is read like its archive."""
    sizes = tmp_path / "pair/options.json"
    named, packed = ("/gone/options.json", sizes) if is_packed else (str(sizes), None)
    assert_same_layers(
        build_bilm(load_checkpoint(write_archive(tmp_path / "model.tar.gz", embedder, named, packed))), embedder
    )
    if not is_packed:
        (tmp_path / "packed/weights.th").rename(tmp_path / "packed/best.th")
        assert_same_layers(build_bilm(load_checkpoint(tmp_path / "packed")), embedder)


@pytest.mark.parametrize("target", ["to.safetensors", "to"])
def test_it_becomes_a_file_that_others_read(tmp_path: Path, embedder: ElmoTokenEmbedder, target: str) -> None:
    path = write_archive(tmp_path / "model.tar.gz", embedder, str(tmp_path / "pair/options.json"))
    convert(path, tmp_path / target)
    expected = load_checkpoint(path)
    assert_same_state(load_checkpoint(tmp_path / target).state_dict, expected.state_dict, 2.5e-7)


def test_sizes_that_cannot_be_read_are_named(tmp_path: Path, embedder: ElmoTokenEmbedder) -> None:
    path = write_archive(tmp_path / "model.tar.gz", embedder, "/gone/options.json")
    assert_rejected(path, "'options_file' is '/gone/options.json'")
    assert_rejected(write_archive(path, embedder, None), f"'{path}!config.json'", "'options_file'", "none")


def test_numbers_that_are_not_finite_are_named(tmp_path: Path, embedder: ElmoTokenEmbedder) -> None:
    next(embedder.parameters()).data[0] = torch.nan
    path = write_archive(tmp_path / "model.tar.gz", embedder, str(tmp_path / "pair/options.json"))
    assert_rejected(path, f"'{path}!', tensor '{PLACE}", "finite")


def test_sizes_of_another_model_are_rejected_by_the_first_tensor(tmp_path: Path, embedder: ElmoTokenEmbedder) -> None:
    other = write_json(tmp_path / "other.json", options(dim=25).to_dict())
    path = write_archive(tmp_path / "model.tar.gz", embedder, str(other))
    tensor = f"{PLACE}._elmo._elmo_lstm._elmo_lstm.forward_layer_0.input_linearity.weight"
    assert_rejected(path, f"'{path}!'", f"'{tensor}'", "(96, 8)", "(100, 8)")
    write_json(other, {"lstm": options().lstm.to_dict(), "n_tokens_vocab": 9})
    assert_rejected(path, "'options_file'", f"'{path}!'", "'char_cnn'")


@pytest.mark.parametrize("content", [b"\xff", b"{", b"[]"])
def test_a_config_without_sizes_is_named(tmp_path: Path, embedder: ElmoTokenEmbedder, content: bytes) -> None:
    write_archive(tmp_path / "model.tar.gz", embedder, "any")
    run = tmp_path / "packed"
    (run / "weights.th").rename(run / "best.th")
    (run / "config.json").write_bytes(content)
    assert_rejected(run, f"'{run}/config.json'")


def test_two_of_them_are_not_one_checkpoint(tmp_path: Path, embedder: ElmoTokenEmbedder) -> None:
    path = write_archive(tmp_path / "model.tar.gz", embedder, str(tmp_path / "pair/options.json"), also=embedder)
    assert_rejected(path, f"'{path}'", f"{PLACE}._elmo._elmo_lstm, also._elmo._elmo_lstm")
