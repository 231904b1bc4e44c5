from pathlib import Path

import pytest
from allennlp.data import Tokenizer

from elmo_plugin.bulk_embedding import Corpus, corpus
from elmo_plugin.bulk_embedding.corpus import Sentence


def write(folder: Path, text: str, tokenizer: str = "just_spaces") -> Corpus:
    (folder / "text").write_text(text, encoding="utf-8")
    return Corpus(folder / "text", Tokenizer.by_name(tokenizer)())


def test_empty_lines_are_sentences_without_tokens_and_white_space_around_a_line_goes(tmp_path: Path) -> None:
    windows = list(write(tmp_path, "\n  Two\t words \n \nend").windows())
    assert windows == [[("", []), ("Two\t words", ["Two", "words"]), ("", []), ("end", ["end"])]]


def test_spacys_rules_cut_where_there_is_no_space(tmp_path: Path) -> None:
    (window,) = write(tmp_path, "Don't stop, now.\n", "spacy_blank").windows()
    assert window == [Sentence("Don't stop, now.", ["Do", "n't", "stop", ",", "now", "."])]


def test_windows_are_cut_at_so_many_tokens_and_empty_lines_fill_them_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "TOKENS_IN_WINDOW", 10)
    text = write(tmp_path, "a b c\na b c\nx\n" + "\n" * 12 + "end\n")
    assert [len(window) for window in text.windows()] == [2, 5, 5, 4]
    assert list(text.windows()) == list(text.windows())


def test_an_empty_file_has_no_window(tmp_path: Path) -> None:
    assert list(write(tmp_path, "").windows()) == []
