"""A bundled biLM in a config: found by its name, and in the archive that was trained with it."""

import shutil
from pathlib import Path

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from torch import nn

from elmo_plugin.bilm import BiLM
from elmo_plugin.checkpoints import Native, checkpoint_format
from elmo_plugin.checkpoints.resolve import resolve_bilm
from tests.checkpoint_oracles import assert_same_state, pretrained

KEYS = {"pretrained": "english-tiny"}


@pytest.fixture
def bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundled biLM, seen from an empty working directory."""
    Native().write(pretrained(), tmp_path / "bundled/english-tiny/english-tiny.safetensors")
    monkeypatch.setattr(checkpoint_format, "BUNDLED", tmp_path / "bundled")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "bundled"


def saved(folder: Path, name: str) -> BiLM:
    """The biLM of a task model that was trained with the bundled one and left its weights under this name."""
    bilm = resolve_bilm(KEYS, "auto", None)
    with torch.no_grad():
        bilm.lstm.forward_layers[0].bias.add_(1.0)
    folder.mkdir()
    torch.save(nn.ModuleDict({"elmo": nn.ModuleDict({"bilm": bilm})}).state_dict(), folder / name)
    return bilm


def test_a_bundled_bilm_is_pretrained_by_its_name(bundled: Path, tmp_path: Path) -> None:
    bilm = resolve_bilm(KEYS, "auto", str(tmp_path / "a new run"))
    assert bilm.source == "english-tiny"
    assert_same_state(dict(bilm.state_dict()), pretrained().state_dict)


@pytest.mark.parametrize("gone", [False, True])
def test_an_archive_trained_with_it_has_its_own(bundled: Path, tmp_path: Path, gone: bool) -> None:
    trained = saved(tmp_path / "run", "weights.th")
    if gone:
        shutil.rmtree(bundled)
    found = resolve_bilm(KEYS, "auto", str(tmp_path / "run"))
    assert torch.equal(found.lstm.forward_layers[0].bias, trained.lstm.forward_layers[0].bias)


def test_a_run_reads_it_again_and_only_where_it_is_gone_its_own_best_weights(bundled: Path, tmp_path: Path) -> None:
    trained = saved(tmp_path / "run", "best.th")
    fresh = resolve_bilm(KEYS, "auto", str(tmp_path / "run"))
    assert torch.equal(fresh.lstm.forward_layers[0].bias, pretrained().state_dict["lstm.forward_layers.0.bias"])
    shutil.rmtree(bundled)
    found = resolve_bilm(KEYS, "auto", str(tmp_path / "run"))
    assert torch.equal(found.lstm.forward_layers[0].bias, trained.lstm.forward_layers[0].bias)


def test_a_wrong_name_is_told_the_right_ones(bundled: Path) -> None:
    with pytest.raises(ConfigurationError, match="the bundled biLMs are: english-tiny"):
        resolve_bilm({"pretrained": "english-big"}, "auto", None)
