"""One rule for tokenized text: `" ".join(tokens)` keeps the number of tokens, in every reader."""

import gzip
from pathlib import Path

import pytest
from allennlp.common import Params
from allennlp.data import DatasetReader
from hypothesis import given
from hypothesis import strategies as st

from elmo_plugin.embedding import Corpus
from elmo_plugin.pretraining import BiLMVocabulary
from elmo_plugin.text import AsciiSpacesTokenizer, split_tokens, tokenizer

ODD = ["2\u00a0000", "\u3000", "a\u2028b", "\x1c", "x\x85", "New\u202fYork"]


@given(st.lists(st.sampled_from(ODD) | st.text(st.characters(exclude_characters=" \t\n\r\f\v"), min_size=1)))
def test_joined_tokens_come_back(tokens: list[str]) -> None:
    assert split_tokens(" ".join(tokens)) == split_tokens("\t " + "  ".join(tokens) + " \r\n") == tokens


def test_every_reader_of_tokenized_text_finds_the_same_tokens(tmp_path: Path) -> None:
    sentences = [["It", *ODD, "."], ODD, ["\u00a0"]]
    joined = "".join(" ".join(tokens) + "\n" for tokens in sentences)
    (tmp_path / "text.gz").write_bytes(gzip.compress(joined.encode()))
    columns = "\n".join("".join(f"{token} X\n" for token in tokens) for tokens in sentences)
    (tmp_path / "columns").write_text(columns, encoding="utf-8", newline="\n")
    (window,) = Corpus(tmp_path / "text.gz", AsciiSpacesTokenizer()).windows()
    assert [sentence.tokens for sentence in window.sentences] == sentences
    for kind, name in (("column_tags", "columns"), ("text_shards", "text.gz")):
        read = DatasetReader.from_params(Params({"type": kind})).read(str(tmp_path / name))
        assert [[token.text for token in instance["tokens"].tokens] for instance in read] == sentences
    counted = BiLMVocabulary.from_text_shards(str(tmp_path / "text.gz")).get_token_to_index_vocabulary()
    assert counted.keys() >= {*ODD, "\u00a0"}


def test_a_token_that_other_tools_split_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tokenizer.logger, "_seen_msgs", set())
    for line in ("no odd space", "2\u00a0000 crowns", "3\u00a0000 crowns"):
        split_tokens(line)
    (message,) = caplog.messages
    assert r"'2\xa0000'" in message
