"""From every format to every other: what arrives, and what each format has no place for."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.checkpoints import BilmTf, Checkpoint, Native, build_bilm, convert, load_checkpoint, save_bilm
from elmo_plugin.checkpoints.conversion import write_checkpoint
from elmo_plugin.text import batch_to_ids
from tests.checkpoint_oracles import (
    LEXICON,
    SOFTMAX,
    WORDS,
    assert_same_checkpoint,
    assert_same_state,
    language_model_archive,
    language_model_run,
    pretrained,
)
from tests.checkpoints.file_tools import contents
from tests.oracles import SENTENCES

INPUTS: dict[str, dict[str, Any]] = {
    "characters": {},
    "words": {"char_cnn": None, "n_tokens_vocab": len(WORDS)},
    "lexicons": {"char_cnn": None, "lexicon": LEXICON},
}
CASES = [
    *product(INPUTS, ["native"], ["native", "hub"]),
    *product(["characters", "words"], ["native"], ["bilm-tf"]),
    *product(["characters"], ["run", "hub", "bilm-tf"], ["native"]),
    ("lexicons", "archive", "native"),
]


def written(folder: Path, form: str, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint in one of the formats."""
    if form == "archive":
        return language_model_archive(folder / "model.tar.gz", checkpoint)
    if form == "run":
        return language_model_run(folder / "run", checkpoint)
    if form == "native":
        Native().write(checkpoint, folder / "one.safetensors")
        return folder / "one.safetensors"
    if form == "hub":
        write_checkpoint(checkpoint, folder / "from", "hub")
    else:
        BilmTf().write(checkpoint, folder / "from")
    return folder / "from"


def target(folder: Path, form: str) -> Path:
    return folder / ("to.safetensors" if form == "native" else "to")


@pytest.mark.parametrize(("input", "source", "form"), CASES)
def test_conversion_keeps_all_but_the_softmax_that_bilm_tf_cannot_hold(
    tmp_path: Path, input: str, source: str, form: str
) -> None:
    """Exact except for one rounding of the forget bias, which bilm-tf stores minus one."""
    checkpoint, to = pretrained(warm=True, **INPUTS[input]), target(tmp_path, form)
    converted = convert(written(tmp_path, source, checkpoint), to, to=form)
    assert converted.left_out == (["softmax"] if form == "bilm-tf" else [])
    if "bilm-tf" in (source, form):
        checkpoint = checkpoint._replace(softmax=None)
    found = load_checkpoint(to)
    assert_same_state(found.state_dict, checkpoint.state_dict, 2.5e-7 if "bilm-tf" in (source, form) else 0.0)
    assert_same_checkpoint(found._replace(state_dict={}), checkpoint._replace(state_dict={}))
    if form != "hub":  # whose model card has the name of its folder
        convert(to, target(tmp_path / "again", form), to=form)
        assert contents(target(tmp_path / "again", form)) == contents(to)


@pytest.mark.parametrize("form", ["native", "bilm-tf"])
def test_a_softmax_and_a_vocabulary_stay_when_a_warm_state_is_added(tmp_path: Path, form: str) -> None:
    Native().write(pretrained(), tmp_path / "one.safetensors")
    (tmp_path / "text").write_text("The cat sat .\n", encoding="utf-8")
    convert(tmp_path / "one.safetensors", target(tmp_path, form), tmp_path / "text")
    found = load_checkpoint(target(tmp_path, form))
    assert build_bilm(found).warm_state is not None
    assert found.vocabulary == WORDS and (found.softmax is not None) == (form == "native")
    assert found.softmax is None or found.softmax.config == SOFTMAX


@pytest.mark.parametrize(
    ("name", "arguments", "fact"),
    [
        ("model.tar.gz", {}, "model.tar.gz.* folder for the files of bilm-tf"),
        ("to", {"to": "onnx"}, "native, bilm-tf, hub, got 'onnx'"),
        ("to", {"to": "native"}, r"to'.*\.safetensors"),
        ("to", {"dtype": "float16"}, "'dtype'.* bilm-tf"),
        ("to.safetensors", {"dtype": "float8"}, "'dtype'.* float16, bfloat16, got 'float8'"),
        ("to", {"license": "mit"}, "'license'.* bilm-tf.* hub"),
    ],
)
def test_arguments_are_checked_before_anything_is_read(
    tmp_path: Path, name: str, arguments: dict[str, Any], fact: str
) -> None:
    with pytest.raises(ConfigurationError, match=fact):
        convert(tmp_path / "any", tmp_path / name, **arguments)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(("target", "precision"), [("bilm.safetensors", "int8"), ("bilm", "float32")])
@pytest.mark.usefixtures("rounded_small_weights")
def test_a_bilm_in_memory_is_saved_in_any_format(tmp_path: Path, target: str, precision: str) -> None:
    bilm = build_bilm(pretrained())
    expected = bilm(batch_to_ids(SENTENCES)).layers
    bilm.requires_grad_(False).set_precision(precision)
    save_bilm(bilm, tmp_path / target)
    assert bilm.precision_of_weights == precision
    found = build_bilm(load_checkpoint(tmp_path / target))(batch_to_ids(SENTENCES)).layers
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6 if precision == "float32" else 0.1)
