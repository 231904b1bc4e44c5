"""Bundled biLMs: found by their names, after what lies in the working directory, and listed where a name is wrong."""

from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.checkpoints import Native, checkpoint_format, load_checkpoint
from elmo_plugin.checkpoints.checkpoint_format import bundled_names, is_missing
from tests.checkpoint_oracles import assert_same_checkpoint, pretrained


@pytest.fixture(autouse=True)
def bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two bundled biLMs, of one and of two layers, seen from an empty working directory."""
    folder = tmp_path / "bundled"
    for layers, name in ((1, "latin-tiny"), (2, "english-tiny")):
        Native().write(pretrained(n_layers=layers), folder / name / f"{name}-v1.safetensors")
        (folder / name / "LICENSE.md").touch()
    (folder / "no_bilm").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(checkpoint_format, "BUNDLED", folder)
    return folder


def refusal(location: str) -> str:
    with pytest.raises(ConfigurationError) as error:
        load_checkpoint(location)
    return str(error.value.message)


def test_a_bundled_bilm_is_found_by_its_name() -> None:
    assert bundled_names() == ["english-tiny", "latin-tiny"]
    assert_same_checkpoint(load_checkpoint("english-tiny"), pretrained())
    assert_same_checkpoint(load_checkpoint(Path("latin-tiny")), pretrained(n_layers=1))
    assert_same_checkpoint(Native().read("latin-tiny"), pretrained(n_layers=1))
    assert not is_missing("english-tiny") and is_missing("english-tin")


def test_a_local_path_of_that_name_goes_first() -> None:
    Native().write(pretrained(n_layers=3), Path("english-tiny/mine.safetensors"))
    assert load_checkpoint("english-tiny").options.lstm.n_layers == 3
    Path("latin-tiny").touch()
    assert refusal("latin-tiny").endswith("got an empty file")


@pytest.mark.parametrize("name", ["english-tin", "no_bilm", "English-Tiny"])
def test_an_unknown_name_is_told_the_names(name: str) -> None:
    message = refusal(name)
    assert message.startswith(f"'{name}' holds no biLM: ")
    assert message.endswith("there is no such file or folder; the bundled biLMs are: english-tiny, latin-tiny")


@pytest.mark.parametrize("path", ["./english/tin", "../bundled/none", "english-tiny/none"])
def test_a_path_is_no_name(path: str) -> None:
    assert refusal(path).endswith("there is no such file or folder")


def test_without_bundled_bilms_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_format, "BUNDLED", Path("nowhere"))
    assert refusal("english-tiny").endswith("the bundled biLMs are: none")
