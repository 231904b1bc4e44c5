"""From every format to every other: what arrives, and what each format has no room for."""

from itertools import product
from pathlib import Path

import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.characters import batch_to_ids
from elmo_plugin.checkpoints import BilmTf, Native, build_bilm, load_checkpoint
from elmo_plugin.checkpoints.conversion import convert
from tests.checkpoint_oracles import (
    SOFTMAX,
    WORDS,
    assert_same_state,
    language_model_archive,
    language_model_run,
    pretrained,
)
from tests.oracles import SENTENCES

SOURCES = ("archive", "run", "native", "bilm-tf")
TARGETS = ("native", "bilm-tf")


def written(folder: Path, form: str) -> Path:
    """The same checkpoint with a warm state in one of the forms."""
    checkpoint = pretrained(warm=True)
    if form == "archive":
        return language_model_archive(folder / "model.tar.gz", checkpoint)
    if form == "run":
        return language_model_run(folder / "run", checkpoint)
    if form == "native":
        Native().write(checkpoint, folder / "one.safetensors")
        return folder / "one.safetensors"
    BilmTf().write(checkpoint, folder / "pair")
    return folder / "pair"


def target(folder: Path, form: str) -> Path:
    return folder / ("to.safetensors" if form == "native" else "to")


@pytest.mark.parametrize(("source", "form"), list(product(SOURCES, TARGETS)))
def test_everything_that_both_formats_hold_arrives(tmp_path: Path, source: str, form: str) -> None:
    """To one rounding of the forget bias, which bilm-tf stores minus one."""
    convert(written(tmp_path, source), target(tmp_path, form))
    found, wanted = load_checkpoint(target(tmp_path, form)), pretrained(warm=True)
    assert found.options == wanted.options and found.vocabulary == WORDS
    assert_same_state(found.state_dict, wanted.state_dict, 2.5e-7 if "bilm-tf" in (source, form) else 0.0)
    assert (found.softmax is None) == ("bilm-tf" in (source, form))
    if found.softmax is not None and wanted.softmax is not None:
        assert found.softmax.config == SOFTMAX
        assert_same_state(found.softmax.state_dict, wanted.softmax.state_dict)


@pytest.mark.parametrize("form", TARGETS)
def test_a_softmax_and_a_vocabulary_stay_when_a_warm_state_is_added(tmp_path: Path, form: str) -> None:
    Native().write(pretrained(), tmp_path / "one.safetensors")
    (tmp_path / "text").write_text("The cat sat .\n", encoding="utf-8")
    convert(tmp_path / "one.safetensors", target(tmp_path, form), tmp_path / "text")
    found = load_checkpoint(target(tmp_path, form))
    assert build_bilm(found).warm_state is not None
    assert found.vocabulary == WORDS and (found.softmax is not None) == (form == "native")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_bilm_in_half_precision_is_close_and_stays_what_it_is(tmp_path: Path, dtype: str) -> None:
    convert(written(tmp_path, "archive"), tmp_path / "half.safetensors", dtype=dtype)
    exact, half = build_bilm(pretrained()), build_bilm(load_checkpoint(tmp_path / "half.safetensors"))
    ids = batch_to_ids(SENTENCES)
    torch.testing.assert_close(half(ids).layers, exact(ids).layers, rtol=0, atol=0.1)
    convert(tmp_path / "half.safetensors", tmp_path / "again.safetensors", dtype=dtype)
    again = load_checkpoint(tmp_path / "again.safetensors").state_dict
    assert_same_state(again, load_checkpoint(tmp_path / "half.safetensors").state_dict)


def test_the_format_may_be_said(tmp_path: Path) -> None:
    source = written(tmp_path, "archive")
    convert(source, tmp_path / "folder.safetensors", to="bilm-tf")
    assert (tmp_path / "folder.safetensors/weights.hdf5").exists()
    assert load_checkpoint(tmp_path / "folder.safetensors").vocabulary == WORDS
    with pytest.raises(ConfigurationError, match=r"'.*/my_bilm' is no name for the native format"):
        convert(source, tmp_path / "my_bilm", to="native")


def test_half_precision_is_for_the_native_format(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="bilm-tf's files hold float32; wanted the native format for float16"):
        convert(written(tmp_path, "archive"), tmp_path / "to", dtype="float16")
    assert not (tmp_path / "to").exists()
