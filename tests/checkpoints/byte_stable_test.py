"""Save, load, save: each format gives the same bytes again, for biLMs of any sizes."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from elmo_plugin.checkpoints import BilmTf, Checkpoint, ManyLangs, Native, build_bilm, convert, load_checkpoint
from tests.checkpoint_oracles import LEXICON, WORDS, language_model_run, pretrained
from tests.checkpoints.file_tools import contents

WRITERS = {"native": Native, "bilm-tf": BilmTf, "many-langs": ManyLangs}
INPUTS: dict[str, list[dict[str, Any]]] = {
    "native": [{}, {"char_cnn": None, "n_tokens_vocab": len(WORDS)}, {"char_cnn": None, "lexicon": LEXICON}],
    "bilm-tf": [{}, {"char_cnn": None, "n_tokens_vocab": len(WORDS)}],
    "many-langs": [{"char_cnn": None, "lexicon": LEXICON}],
}
sizes = st.fixed_dictionaries(
    {
        "n_layers": st.integers(1, 3),
        "dim": st.integers(9, 20),
        "projection_dim": st.integers(1, 8),
        "cell_clip": st.sampled_from([None, 3, 0.5]),
    }
)


def checkpoint_for(form: str, sizes: dict[str, Any], kind: int, has_all: bool) -> Checkpoint:
    """Return a checkpoint with all parts that a format can hold, or with the biLM only."""
    reads = INPUTS[form][kind % len(INPUTS[form])]
    if form == "many-langs":
        return pretrained(**sizes, **reads)._replace(softmax=None, vocabulary=None)
    checkpoint = pretrained(warm=has_all, **sizes, **reads)
    if form == "bilm-tf" or not has_all:
        checkpoint = checkpoint._replace(softmax=None)
    keeps = has_all or "n_tokens_vocab" in reads
    return checkpoint if keeps else checkpoint._replace(vocabulary=None)


@pytest.mark.parametrize("form", WRITERS)  # `hub` is `native` and a card
@settings(max_examples=8)
@given(sizes=sizes, kind=st.integers(0, 2), has_all=st.booleans())
def test_what_is_read_is_written_with_the_same_bytes(
    form: str, sizes: dict[str, Any], kind: int, has_all: bool
) -> None:
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        name = "bilm.safetensors" if form == "native" else "bilm"
        WRITERS[form]().write(checkpoint_for(form, sizes, kind, has_all), Path(one, name))
        convert(Path(one, name), Path(other, name), to=form)
        assert contents(Path(other, name)) == contents(Path(one, name))


@settings(max_examples=8)
@given(sizes=sizes, warm=st.booleans())
def test_the_weights_of_an_archive_are_saved_with_the_same_bytes(sizes: dict[str, Any], warm: bool) -> None:
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        run = language_model_run(Path(one), pretrained(warm=warm, **sizes))
        again = load_checkpoint(run)
        bilm = build_bilm(again, source="random:0")
        language_model_run(Path(other), again._replace(state_dict=without_description(bilm.state_dict())))
        assert contents(Path(other) / "vocabulary") == contents(run / "vocabulary")
        assert Path(other, "best.th").read_bytes() == (run / "best.th").read_bytes()


def without_description(state_dict: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value for name, value in state_dict.items() if name != "_extra_state"}


def test_the_metadata_of_a_native_file_are_sorted(tmp_path: Path) -> None:
    """safetensors itself writes them in a different order each time, and reads them in any order."""
    Native().write(
        pretrained(), tmp_path / "bilm.safetensors", metadata={"licence": "日本語 \N{SLIGHTLY SMILING FACE}"}
    )
    content = (tmp_path / "bilm.safetensors").read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    assert length % 8 == 0 and [*header["__metadata__"]] == sorted(header["__metadata__"])
    with safe_open(tmp_path / "bilm.safetensors", framework="pt") as file:
        assert file.metadata() == header["__metadata__"]
