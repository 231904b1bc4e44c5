import gzip
import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.data import Tokenizer
from elmoformanylangs.__main__ import read_corpus

from elmo_plugin.embedding import Corpus, corpus
from elmo_plugin.embedding.corpus import Sentence, Share


def write(folder: Path, text: str, tokenizer: str = "just_spaces", share: Share = corpus.WHOLE) -> Corpus:
    (folder / "text").write_text(text, encoding="utf-8")
    return Corpus(folder / "text", Tokenizer.by_name(tokenizer)(), share)


def test_empty_lines_are_sentences_without_tokens_and_white_space_around_a_line_is_dropped(tmp_path: Path) -> None:
    text = write(tmp_path, "\n  Two\t words \n \nend")
    assert list(text.windows()) == [(0, [("", []), ("Two\t words", ["Two", "words"]), ("", []), ("end", ["end"])])]
    assert list(text.texts()) == ["", "Two\t words", "", "end"]


def test_spacys_rules_also_split_where_there_is_no_space(tmp_path: Path) -> None:
    (window,) = write(tmp_path, "Don't stop, now.\n", "spacy_blank").windows()
    assert window.sentences == [Sentence("Don't stop, now.", ["Do", "n't", "stop", ",", "now", "."])]


def test_windows_are_cut_by_characters_and_empty_lines_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "CHARACTERS_IN_WINDOW", 10)
    text = write(tmp_path, "日 b\na b c\nx\n" + "\n" * 12 + "longer than a window\nend")
    windows = [(start, len(sentences)) for start, sentences in text.windows()]
    assert windows == [(0, 2), (2, 9), (11, 4), (15, 1), (16, 1)]
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


@pytest.mark.parametrize(("text", "got"), [(Path("-"), "standard input"), (["A line"], "lines")])
def test_several_processes_cannot_share_standard_input_or_lines(text: Any, got: str) -> None:
    with pytest.raises(ConfigurationError, match=f"2 processes.*got {got}"):
        Corpus(text, Tokenizer.by_name("just_spaces")(), Share(1, 2))


def test_a_path_given_as_a_string_is_an_error_and_not_a_text_of_its_characters(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("Two words\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"expected a `Path`.*text'"):
        Corpus(str(tmp_path / "text"), Tokenizer.by_name("just_spaces")())


def test_the_identity_of_a_text_depends_on_each_letter_and_on_the_tokenizer(tmp_path: Path) -> None:
    texts = [("a b\n", "just_spaces"), ("a b\n", "spacy_blank"), ("a c\n", "just_spaces")]
    same, *others = [write(tmp_path, *text).identity() for text in texts]
    assert same not in others and same == write(tmp_path, *texts[0]).identity()


def test_an_empty_file_has_no_window(tmp_path: Path) -> None:
    assert list(write(tmp_path, "").windows()) == []


@pytest.mark.parametrize("size", [2, 4])
def test_a_few_hundred_lines_are_shared_about_equally(tmp_path: Path, size: int) -> None:
    text = "".join(
        f"line number {number} has about as many words as a sentence has , and so on {'word ' * 5}.\n"
        for number in range(300)
    )
    shares = [list(write(tmp_path, text, share=Share(rank, size)).windows()) for rank in range(size)]
    tokens = [sum(len(line.tokens) for window in windows for line in window.sentences) for windows in shares]
    assert min(tokens) > 0.5 * sum(tokens) / size


def test_windows_grow_from_the_smallest_to_the_largest_size(tmp_path: Path) -> None:
    line = "x" * 127 + "\n"
    windows = write(tmp_path, line * 20 * 2**10).windows()
    sizes = [len(window.sentences) * len(line) for window in windows]
    assert sizes[0] == 8192 and sizes[:-1] == sorted(sizes[:-1])
    assert sizes[-2] == corpus.CHARACTERS_IN_WINDOW == max(sizes)
    for size in (2**13, 2**14, 2**17):
        assert sizes.count(size) == 8


def test_windows_are_the_same_for_a_plain_file_a_compressed_one_standard_input_and_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f"{'word ' * (number % 20)}\n" for number in range(3000))
    wanted = list(write(tmp_path, text).windows())
    (tmp_path / "packed").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    tokenizer = Tokenizer.by_name("just_spaces")()
    for source in (tmp_path / "packed", Path("-"), io.StringIO(text)):
        assert list(Corpus(source, tokenizer).windows()) == wanted
    assert len(wanted) > 10


def test_tabs_separate_tokens_that_may_hold_spaces_or_nothing(tmp_path: Path) -> None:
    text = write(tmp_path, "New York\tis  \tbig\n\tempty\t\tfields\t\r\n\n \nno tab", "just_tabs")
    (window,) = text.windows()
    assert window.sentences == [
        Sentence("New York\tis  \tbig", ["New York", "is  ", "big"]),
        Sentence("\tempty\t\tfields\t", ["", "empty", "", "fields", ""]),
        Sentence("", []),
        Sentence(" ", [" "]),
        Sentence("no tab", ["no tab"]),
    ]
    assert list(text.texts()) == [sentence.text for sentence in window.sentences]


def test_tabs_separate_tokens_as_in_elmo_for_many_langs(tmp_path: Path) -> None:
    """Compared with its own reader, which differs for empty lines and for tabs at both ends of a file."""
    content = "New York\tis  \tbig\n\tempty\t\tfields\t\n \n日本語\t🙂\nend\n"
    (window,) = write(tmp_path, content, "just_tabs").windows()
    _, wanted = read_corpus(str(tmp_path / "text"))
    assert [sentence.tokens for sentence in window.sentences] == wanted


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_a_missing_file_or_a_folder_is_an_error_before_anything_is_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="expected a text file"):
        Corpus(tmp_path / name, Tokenizer.by_name("just_spaces")())


def test_lines_that_are_not_text_are_errors() -> None:
    with pytest.raises(ConfigurationError, match="line 1: expected text, got b'one"):
        list(Corpus(io.BytesIO(b"one\n"), Tokenizer.by_name("just_spaces")()).windows())
