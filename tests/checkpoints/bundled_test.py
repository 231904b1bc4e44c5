"""Bundled biLMs: found by their names, listed in errors, used in configs and saved in archives."""

import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from elmo_plugin.checkpoints import Native, bundled_names, files, load_checkpoint, resolve_bilm
from tests.checkpoint_oracles import assert_rejected, assert_same_checkpoint, assert_same_state, pretrained

KEYS = {"pretrained": "english-tiny"}


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
    bilm = resolve_bilm(KEYS, "auto", str(tmp_path / "a new run"))
    assert bilm.source == "english-tiny"
    assert_same_state(dict(bilm.state_dict()), pretrained().state_dict)


def test_a_local_path_of_that_name_takes_precedence() -> None:
    Native().write(pretrained(n_layers=3), Path("english-tiny/mine.safetensors"))
    assert load_checkpoint("english-tiny").options.lstm.n_layers == 3


def test_an_error_lists_the_names() -> None:
    assert_rejected("no_bilm", "'no_bilm' holds no biLM", "the bundled biLMs are: english-tiny, latin-tiny")


@pytest.mark.parametrize("name", ["weights.th", "best.th"])
def test_an_archive_has_its_own_bilm_and_a_run_only_if_the_original_no_longer_exists(
    bundled: Path, tmp_path: Path, name: str
) -> None:
    trained = resolve_bilm(KEYS, "auto", None)
    original = trained.lstm.forward_layers[0].bias.detach().clone()
    with torch.no_grad():
        trained.lstm.forward_layers[0].bias.add_(1.0)
    torch.save(nn.ModuleDict({"elmo": nn.ModuleDict({"bilm": trained})}).state_dict(), tmp_path / name)
    for expected in (original if name == "best.th" else original + 1.0, original + 1.0):
        assert torch.equal(resolve_bilm(KEYS, "auto", str(tmp_path)).lstm.forward_layers[0].bias, expected)
        shutil.rmtree(bundled, ignore_errors=True)
