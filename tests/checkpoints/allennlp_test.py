"""AllenNLP archives and runs: the biLM inside the weights of a model, ours or AllenNLP's own, and what is beside it."""

import tarfile
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.token_embedders import ElmoTokenEmbedder
from torch import Tensor, nn

import elmo_plugin
from elmo_plugin.bilm import BiLM, BiLMOptions, warm_up
from elmo_plugin.checkpoints import archived_checkpoint, build_bilm, load_checkpoint
from elmo_plugin.text import batch_to_ids
from tests.checkpoint_oracles import (
    assert_rejected,
    assert_same_checkpoint,
    language_model_run,
    language_model_weights,
    pretrained,
)
from tests.oracles import SENTENCES, lively, options, reference_layers, write_files, write_json

PLACE = "text_field_embedder.token_embedder_elmo"


class Holder(nn.Module):
    """A module that holds a biLM, as `Elmo` does."""

    def __init__(self, bilm: BiLM) -> None:
        super().__init__()
        self.bilm = bilm
        self.mix = nn.Linear(3, 1)


def make_bilm(source: str = "models/weights.hdf5", sizes: Optional[BiLMOptions] = None) -> BiLM:
    return lively(BiLM(sizes or options(), source=source))


def make_weights(**bilms: BiLM) -> dict[str, Tensor]:
    """Return the state dict of a model with these biLMs at some depth, and with other modules."""
    parts = {name: nn.ModuleDict({"elmo": Holder(bilm)}) for name, bilm in bilms.items()}
    return nn.ModuleDict({**parts, "tagger": nn.Linear(2, 2)}).state_dict()


def write_archive(path: Path, weights: Any, name: str = "weights.th") -> Path:
    """Write a `model.tar.gz` as AllenNLP does."""
    torch.save(weights, path.parent / name)
    (path.parent / "config.json").write_text("{}", encoding="utf-8")
    with tarfile.open(path, "w:gz") as archive:
        for member in ("config.json", name):
            archive.add(path.parent / member, arcname=member)
            (path.parent / member).unlink()
    return path


def assert_same_bilm(actual: BiLM, expected: BiLM) -> None:
    assert actual.options == expected.options
    ids = batch_to_ids(SENTENCES)
    assert torch.equal(actual(ids).layers, expected(ids).layers)


def test_the_bilm_of_an_archive_or_a_run_is_read_without_its_model(tmp_path: Path) -> None:
    bilm = make_bilm(sizes=options(n_layers=3, n_highway=0))
    bilm.warm_state = warm_up(bilm, [batch_to_ids(SENTENCES)])
    checkpoint = load_checkpoint(write_archive(tmp_path / "model.tar.gz", make_weights(embedder=bilm)))
    assert not any(name.startswith(("embedder", "tagger", "mix")) for name in checkpoint.state_dict)
    (tmp_path / "run").mkdir()
    torch.save(make_weights(embedder=bilm), tmp_path / "run/best.th")
    for actual in map(build_bilm, (checkpoint, load_checkpoint(tmp_path / "run"))):
        assert_same_bilm(actual, bilm)
        assert actual.warm_state is not None and torch.equal(actual.warm_state.cell, bilm.warm_state.cell)


def test_two_bilms_of_one_model_are_told_apart_by_their_source(tmp_path: Path) -> None:
    first, second = make_bilm("a/weights.hdf5"), make_bilm("b.tar.gz", options(n_layers=1))
    torch.save(make_weights(one=first, two=second), tmp_path / "weights.th")
    for bilm in (first, second):
        checkpoint = archived_checkpoint(str(tmp_path), bilm.source, "weights.th")
        assert checkpoint is not None
        assert_same_bilm(build_bilm(checkpoint, source=bilm.source), bilm)
    assert archived_checkpoint(str(tmp_path), "c", "weights.th") is None
    path = write_archive(tmp_path / "model.tar.gz", make_weights(one=first, two=second))
    assert_rejected(path, f"'{path}'", "a/weights.hdf5, b.tar.gz")


def test_a_bilm_deeper_in_a_model_has_neither_softmax_nor_vocabulary(tmp_path: Path) -> None:
    run = language_model_run(tmp_path / "run", pretrained())
    weights = {f"text_field_embedder.{name}": value for name, value in language_model_weights(pretrained()).items()}
    torch.save(weights, run / "best.th")
    assert_same_checkpoint(load_checkpoint(run), pretrained()._replace(softmax=None, vocabulary=None))


def test_a_run_without_best_weights_is_read_from_its_latest_complete_checkpoint(tmp_path: Path) -> None:
    """Epochs are compared as numbers (2 < 10), and epoch 11 has no training state."""
    other = pretrained()
    other = other._replace(state_dict={name: value + 1.0 for name, value in other.state_dict.items()})
    run = language_model_run(tmp_path / "run", other, "model_state_e0_b11.th")
    assert_rejected(run, "config.json, model_state_e0_b11.th, vocabulary")
    for point, checkpoint in {"e0_b2": other, "e0_b10": pretrained()}.items():
        language_model_run(run, checkpoint, f"model_state_{point}.th")
        (run / f"training_state_{point}.th").touch()
    assert_same_checkpoint(load_checkpoint(run), pretrained())
    language_model_run(run, other, "best.th")
    assert_same_checkpoint(load_checkpoint(run), other)


def test_an_archive_without_weights_or_without_a_bilm_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "model.tar.gz"
    assert_rejected(write_archive(path, make_weights(), name="other.th"), f"'{path}'", "weights.th")
    assert_rejected(write_archive(path, make_weights()), f"'{path}'", "one biLM", "none")
    assert_rejected(write_archive(path, print), f"'{path}/weights.th' holds no readable weights")


@pytest.fixture
def embedder(tmp_path: Path) -> ElmoTokenEmbedder:
    """Return AllenNLP's embedder on the files in `pair`, fine-tuned, so that no file holds its weights."""
    made = ElmoTokenEmbedder(*write_files(tmp_path / "pair", lively(BiLM(options()))))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(1.01)
    return made


def pack_elmo(path: Path, embedder: nn.Module, options_file: Optional[str], packed: Optional[Path] = None) -> Path:
    """Write a `model.tar.gz` of a model with the embedder; `packed` is an options file to pack as AllenNLP 0.x did."""
    folder = path.parent / "packed"
    folder.mkdir(exist_ok=True)
    modules = {PLACE: embedder, "encoder": nn.Linear(2, 2)}
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
        build_bilm(load_checkpoint(pack_elmo(tmp_path / "model.tar.gz", embedder, named, packed))), embedder
    )
    if not is_packed:
        (tmp_path / "packed/weights.th").rename(tmp_path / "packed/best.th")
        assert_same_layers(build_bilm(load_checkpoint(tmp_path / "packed")), embedder)


def test_the_options_of_an_old_archive_may_be_another_file(tmp_path: Path, embedder: ElmoTokenEmbedder) -> None:
    path = str(pack_elmo(tmp_path / "model.tar.gz", embedder, "/gone/options.json"))
    sizes = str(tmp_path / "pair/options.json")
    with pytest.raises(ConfigurationError, match=r"'/gone/options\.json'.* 'options_file', and this model as 'weight"):
        load_checkpoint(path)
    assert_same_layers(build_bilm(load_checkpoint(path, sizes)), embedder)
    assert_same_layers(elmo_plugin.Elmo(sizes, path).bilm, embedder)
    assert_same_layers(elmo_plugin.Elmo(sizes, str(tmp_path / "packed")).bilm, embedder)
    assert_same_layers(elmo_plugin.load(path, options_file=sizes).elmo.bilm, embedder)
    trained = elmo_plugin.load(path, "trained", options_file=sizes)
    assert_same_layers(trained.elmo.bilm, embedder)
    with pytest.raises(ConfigurationError, match="'options_file': expected none"):
        load_checkpoint(write_archive(tmp_path / "ours.tar.gz", make_weights(elmo=make_bilm())), sizes)
    with pytest.raises(ConfigurationError, match="'options_file': expected none"):
        load_checkpoint("english-tiny", sizes)


def test_sizes_that_cannot_be_read_or_do_not_fit_are_named(tmp_path: Path, embedder: ElmoTokenEmbedder) -> None:
    path = pack_elmo(tmp_path / "model.tar.gz", embedder, "/gone/options.json")
    assert_rejected(path, "'options_file' is '/gone/options.json'")
    assert_rejected(pack_elmo(path, embedder, None), f"'{path}/config.json'", "'options_file'", "none")
    other = write_json(tmp_path / "other.json", options(dim=25).to_dict())
    pack_elmo(path, embedder, str(other))
    tensor = f"{PLACE}._elmo._elmo_lstm._elmo_lstm.forward_layer_0.input_linearity.weight"
    assert_rejected(path, f"'{path}/weights.th'", f"'{tensor}'", "(96, 8)", "(100, 8)")
