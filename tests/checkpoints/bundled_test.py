"""Bundled biLMs: found by their names, listed in errors, used in configs and saved in archives."""

import shutil
from pathlib import Path

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from torch import nn

from elmo_plugin.bilm import BiLM
from elmo_plugin.checkpoints import Native, bundled_names, files, load_checkpoint, resolve_bilm
from elmo_plugin.checkpoints.files import is_missing
from tests.checkpoint_oracles import assert_rejected, assert_same_checkpoint, assert_same_state, pretrained

KEYS = {"pretrained": "english-tiny"}
NAMES = "the bundled biLMs are: english-tiny, latin-tiny"


@pytest.fixture(autouse=True)
def bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Bundle two biLMs, of one and of two layers, and change to an empty working directory."""
    folder = tmp_path / "bundled"
    for layers, name in ((1, "latin-tiny"), (2, "english-tiny")):
        Native().write(pretrained(n_layers=layers), folder / name / f"{name}-v1.safetensors")
        (folder / name / "LICENSE.md").touch()
    (folder / "no_bilm").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(files, "BUNDLED", folder)
    return folder


def test_a_bundled_bilm_is_found_by_its_name(tmp_path: Path) -> None:
    assert bundled_names() == ["english-tiny", "latin-tiny"]
    assert_same_checkpoint(load_checkpoint("english-tiny"), pretrained())
    assert_same_checkpoint(load_checkpoint(Path("latin-tiny")), pretrained(n_layers=1))
    assert_same_checkpoint(Native().read("latin-tiny"), pretrained(n_layers=1))
    assert not is_missing("english-tiny") and is_missing("english-tin")
    bilm = resolve_bilm(KEYS, "auto", str(tmp_path / "a new run"))
    assert bilm.source == "english-tiny"
    assert_same_state(dict(bilm.state_dict()), pretrained().state_dict)


def test_a_local_path_of_that_name_takes_precedence() -> None:
    Native().write(pretrained(n_layers=3), Path("english-tiny/mine.safetensors"))
    assert load_checkpoint("english-tiny").options.lstm.n_layers == 3
    Path("latin-tiny").touch()
    assert_rejected("latin-tiny", "an empty file")


@pytest.mark.parametrize("name", ["english-tin", "no_bilm", "English-Tiny"])
def test_an_error_lists_the_names(name: str) -> None:
    assert_rejected(name, f"'{name}' holds no biLM", NAMES)
    with pytest.raises(ConfigurationError, match=NAMES):
        resolve_bilm({"pretrained": name}, "auto", None)


def saved(folder: Path, name: str) -> BiLM:
    """Save the weights of a task model that was trained with the bundled biLM under this name; return its biLM."""
    bilm = resolve_bilm(KEYS, "auto", None)
    with torch.no_grad():
        bilm.lstm.forward_layers[0].bias.add_(1.0)
    folder.mkdir()
    torch.save(nn.ModuleDict({"elmo": nn.ModuleDict({"bilm": bilm})}).state_dict(), folder / name)
    return bilm


def bias(folder: Path) -> torch.Tensor:
    return resolve_bilm(KEYS, "auto", str(folder)).lstm.forward_layers[0].bias


def test_an_archive_has_its_own_bilm(bundled: Path, tmp_path: Path) -> None:
    trained = saved(tmp_path / "run", "weights.th")
    assert torch.equal(bias(tmp_path / "run"), trained.lstm.forward_layers[0].bias)
    shutil.rmtree(bundled)
    assert torch.equal(bias(tmp_path / "run"), trained.lstm.forward_layers[0].bias)


def test_a_run_reads_its_own_best_weights_only_if_the_original_no_longer_exists(bundled: Path, tmp_path: Path) -> None:
    trained = saved(tmp_path / "run", "best.th")
    assert torch.equal(bias(tmp_path / "run"), pretrained().state_dict["lstm.forward_layers.0.bias"])
    shutil.rmtree(bundled)
    assert torch.equal(bias(tmp_path / "run"), trained.lstm.forward_layers[0].bias)
