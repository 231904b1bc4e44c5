from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.data import Tokenizer

from elmo_plugin.bulk_embedding import Corpus, corpus
from elmo_plugin.bulk_embedding.corpus import Sentence, Share


def write(folder: Path, text: str, tokenizer: str = "just_spaces", share: Share = corpus.WHOLE) -> Corpus:
    (folder / "text").write_text(text, encoding="utf-8")
    return Corpus(folder / "text", Tokenizer.by_name(tokenizer)(), share)


def test_empty_lines_are_sentences_without_tokens_and_white_space_around_a_line_goes(tmp_path: Path) -> None:
    text = write(tmp_path, "\n  Two\t words \n \nend")
    assert list(text.windows()) == [(0, [("", []), ("Two\t words", ["Two", "words"]), ("", []), ("end", ["end"])])]
    assert list(text.texts()) == ["", "Two\t words", "", "end"]


def test_spacys_rules_cut_where_there_is_no_space(tmp_path: Path) -> None:
    (window,) = write(tmp_path, "Don't stop, now.\n", "spacy_blank").windows()
    assert window.sentences == [Sentence("Don't stop, now.", ["Do", "n't", "stop", ",", "now", "."])]


def test_windows_are_cut_at_so_many_characters_and_empty_lines_fill_them_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "CHARACTERS_IN_WINDOW", 10)
    text = write(tmp_path, "日 b\na b c\nx\n" + "\n" * 12 + "longer than a window\nend")
    assert [(start, len(sentences)) for start, sentences in text.windows()] == [
        (0, 2),
        (2, 9),
        (11, 4),
        (15, 1),
        (16, 1),
    ]
    assert list(text.windows()) == list(text.windows())


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_windows_are_dealt_out_in_turn_each_to_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(corpus, "CHARACTERS_IN_WINDOW", 10)
    text = "".join(f"line {number}\n\n" for number in range(7))
    whole = list(write(tmp_path, text).windows())
    assert len(whole) == 7
    for rank in range(size):
        assert list(write(tmp_path, text, share=Share(rank, size)).windows()) == whole[rank::size]


def test_the_standard_input_is_no_text_for_several_processes() -> None:
    with pytest.raises(ConfigurationError, match="standard input cannot be read by each of 2 processes; wanted a file"):
        Corpus(Path("-"), Tokenizer.by_name("just_spaces")(), Share(1, 2))


def test_what_a_text_is_changes_with_each_letter_and_with_the_tokenizer(tmp_path: Path) -> None:
    texts = [("a b\n", "just_spaces"), ("a b\n", "spacy_blank"), ("a c\n", "just_spaces")]
    same, *others = [write(tmp_path, *text).identity() for text in texts]
    assert same not in others and same == write(tmp_path, *texts[0]).identity()


def test_an_empty_file_has_no_window(tmp_path: Path) -> None:
    assert list(write(tmp_path, "").windows()) == []
