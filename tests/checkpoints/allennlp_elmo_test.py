"""Other people's AllenNLP archives: the biLM of `elmo_token_embedder` inside them."""

import json
import tarfile
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.token_embedders import ElmoTokenEmbedder
from torch import nn

from elmo_plugin.bilm import BiLM
from elmo_plugin.checkpoints import build_bilm, load_checkpoint
from elmo_plugin.checkpoints.conversion import convert
from elmo_plugin.text import batch_to_ids
from tests.checkpoint_oracles import assert_same_state
from tests.oracles import SENTENCES, lively, options, reference_layers, write_files, write_json

PLACE = "text_field_embedder.token_embedder_elmo"


@pytest.fixture
def embedder(tmp_path: Path) -> ElmoTokenEmbedder:
    """AllenNLP's, from a pair of files in `pair`; fine-tuned, so that the weights are those of no file."""
    made = ElmoTokenEmbedder(*write_files(tmp_path / "pair", lively(BiLM(options()))))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(1.01)
    return made


def write_archive(
    path: Path, embedder: nn.Module, options_file: Optional[str], packed: Optional[Path] = None, **others: nn.Module
) -> Path:
    """A `model.tar.gz` of a model with that embedder, as AllenNLP packs it; `packed` as its versions before 1.0 did."""
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


def refusal(location: Path) -> str:
    """The message with which a location is refused."""
    with pytest.raises(ConfigurationError) as error:
        load_checkpoint(location)
    return str(error.value.message)


def assert_same_layers(found: BiLM, embedder: Any) -> None:
    ids = batch_to_ids(SENTENCES[:2])
    torch.testing.assert_close(found(ids).layers, reference_layers(embedder._elmo, ids), rtol=0, atol=1e-5)


def test_its_layers_are_those_of_the_trained_model(tmp_path: Path, embedder: ElmoTokenEmbedder) -> None:
    path = write_archive(tmp_path / "model.tar.gz", embedder, str(tmp_path / "pair/options.json"))
    assert_same_layers(build_bilm(load_checkpoint(path)), embedder)


def test_sizes_that_were_packed_are_read_first(tmp_path: Path, embedder: ElmoTokenEmbedder) -> None:
    path = write_archive(tmp_path / "model.tar.gz", embedder, "/gone/options.json", tmp_path / "pair/options.json")
    assert_same_layers(build_bilm(load_checkpoint(path)), embedder)


def test_the_folder_of_a_run_is_read_too(tmp_path: Path, embedder: ElmoTokenEmbedder) -> None:
    write_archive(tmp_path / "model.tar.gz", embedder, str(tmp_path / "pair/options.json"))
    (tmp_path / "packed/weights.th").rename(tmp_path / "packed/best.th")
    assert_same_layers(build_bilm(load_checkpoint(tmp_path / "packed")), embedder)


@pytest.mark.parametrize("target", ["to.safetensors", "to"])
def test_it_becomes_a_file_that_others_read(tmp_path: Path, embedder: ElmoTokenEmbedder, target: str) -> None:
    path = write_archive(tmp_path / "model.tar.gz", embedder, str(tmp_path / "pair/options.json"))
    convert(path, tmp_path / target)
    wanted = load_checkpoint(path)
    assert_same_state(load_checkpoint(tmp_path / target).state_dict, wanted.state_dict, 2.5e-7)


def test_sizes_that_cannot_be_had_are_named(tmp_path: Path, embedder: ElmoTokenEmbedder) -> None:
    path = write_archive(tmp_path / "model.tar.gz", embedder, "/gone/options.json")
    assert refusal(path).startswith("'options_file' is '/gone/options.json', which cannot be had: ")
    write_archive(path, embedder, None)
    said = "wanted one 'options_file' with the sizes of its ELMo, found none"
    assert refusal(path) == f"'{path}!config.json': {said}"


def test_sizes_of_another_model_are_refused_by_the_first_tensor(tmp_path: Path, embedder: ElmoTokenEmbedder) -> None:
    other = write_json(tmp_path / "other.json", options(dim=25).to_dict())
    path = write_archive(tmp_path / "model.tar.gz", embedder, str(other))
    tensor = f"{PLACE}._elmo._elmo_lstm._elmo_lstm.forward_layer_0.input_linearity.weight"
    assert refusal(path) == f"'{path}!', tensor '{tensor}': found shape (96, 8), the 'options_file' wants (100, 8)"
    write_json(other, {"lstm": options().lstm.to_dict(), "n_tokens_vocab": 9})
    assert refusal(path).startswith(f"'options_file' {other} has no 'char_cnn', and the weights of '{path}!' read")


def test_a_config_that_is_none_is_named(tmp_path: Path, embedder: ElmoTokenEmbedder) -> None:
    write_archive(tmp_path / "model.tar.gz", embedder, "any")
    run = tmp_path / "packed"
    (run / "weights.th").rename(run / "best.th")
    for content in (b"\xff", b"{"):
        (run / "config.json").write_bytes(content)
        assert refusal(run).startswith(f"'{run}/config.json', which names the sizes of its ELMo: ")
    (run / "config.json").write_text(json.dumps([]), encoding="utf-8")
    assert refusal(run).endswith("found none")


def test_two_of_them_are_not_one_checkpoint(tmp_path: Path, embedder: ElmoTokenEmbedder) -> None:
    pair = str(tmp_path / "pair/options.json")
    path = write_archive(tmp_path / "model.tar.gz", embedder, pair, also=embedder)
    found = f"{PLACE}._elmo._elmo_lstm, also._elmo._elmo_lstm"
    assert refusal(path) == f"'{path}': wanted an archive with one biLM inside, found {found}"
