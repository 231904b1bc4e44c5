"""Whether a text looks raw: the committed example as it is, untokenized, and hard-wrapped."""

import re
import textwrap
from pathlib import Path

import pytest

from elmo_plugin.text import raw_text_form
from tests.loader_oracles import build_loader

TOKENIZED = (Path(__file__).parents[2] / "examples/corpus/sentences.txt").read_text(encoding="utf-8").splitlines()
RAW = [re.sub(r" ([.,;?!])", r"\1", line) for line in TOKENIZED]


def test_tokenized_sentences_do_not_look_raw() -> None:
    assert raw_text_form(TOKENIZED) is None
    assert raw_text_form([*TOKENIZED, "Mr. Quill had gone ashore ."]) is None


def test_text_that_is_untokenized_or_hard_wrapped_is_recognized() -> None:
    assert raw_text_form(RAW) == "untokenized"
    assert raw_text_form(["今天下雨。", "我们回家，好吗？"]) == "untokenized"
    for width in (50, 72, 100):
        assert raw_text_form(textwrap.wrap(" ".join(TOKENIZED * 50), width)) == "hard-wrapped"


def test_tokenized_sentences_that_were_cut_at_line_ends_are_recognized() -> None:
    sentences = ["It rained , and", "the men of the village ,", "Greta among them , went home .", "Nobody came ."]
    assert raw_text_form(sentences * 50) == "hard-wrapped"
    assert raw_text_form(["where are you", "at home , in bed since noon", "ok", "fine"] * 50) is None  # a chat


def test_pretraining_warns_of_a_raw_text_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.txt").write_text("\n".join(RAW))
    for shuffle in (True, False):  # the loaders of training and validation
        list(build_loader(str(tmp_path / "a.txt"), type="unrolled_streams", streams=1, window=2, shuffle=shuffle))
    (message,) = [record.getMessage() for record in caplog.records if "prepare-text" in record.getMessage()]
    assert "a.txt looks untokenized" in message
