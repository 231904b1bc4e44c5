"""A text as windows of sentences: lines, tables and CoNLL-U."""

import gzip
import io
import sys
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.data import Tokenizer
from elmoformanylangs.__main__ import read_conll_corpus, read_corpus

from elmo_plugin.embedding import Corpus, TableReader, corpus, read_conll
from elmo_plugin.embedding.corpus import Sentence
from elmo_plugin.text import AsciiSpacesTokenizer, JustTabsTokenizer

SPACES = AsciiSpacesTokenizer()
CONLL = """# sent_id = weblog-1
1\tThe\tthe\tDET\t_\t_\t2\tdet\t_\t_
2-3\tcan't\t_\t_\t_\t_\t_\t_\t_\t_
2\tca\tcan\tAUX\t_\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\t_\t_\t2\tadvmod\t_\t_
3.1\tgo\tgo\tVERB\t_\t_\t_\t_\t_\t_

# sent_id = weblog-2
1\tNew York\tNew York\tPROPN\t_\t_\t0\troot\t_\t_
"""


def write(folder: Path, text: str, tokenizer: Tokenizer = SPACES) -> Corpus:
    (folder / "text").write_text(text, encoding="utf-8")
    return Corpus(folder / "text", tokenizer)


def table(folder: Path, name: str, text: str, id: str, column: str) -> list[tuple[str, str]]:
    """Read a table of one window: its ids and texts."""
    (folder / name).write_text(text, encoding="utf-8")
    (window,) = Corpus(folder / name, SPACES, TableReader(id, column)).windows()
    assert window.keys == list(window.ids or [])
    return list(zip(window.keys, window.texts, strict=True))


def test_empty_lines_are_sentences_without_tokens_and_white_space_around_a_line_is_dropped(tmp_path: Path) -> None:
    (window,) = write(tmp_path, "\n  Two\t words \n \nend").windows()
    assert window.sentences == [("", []), ("Two\t words", ["Two", "words"]), ("", []), ("end", ["end"])]
    assert window.start == 0 and window.keys == ["0", "1", "2", "3"]


def test_windows_are_cut_by_characters_and_empty_lines_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "CHARACTERS_IN_WINDOW", 10)
    text = write(tmp_path, "日 b\na b c\nx\n" + "\n" * 12 + "longer than a window\nend")
    assert [(window.start, len(window.texts)) for window in text.windows()] == [
        (0, 2),
        (2, 9),
        (11, 4),
        (15, 1),
        (16, 1),
    ]


@pytest.mark.parametrize(
    ("lines", "sizes"), [(0, [0]), (2, [2]), (3, [2, 1]), (5, [3, 2]), (6, [2, 2, 2]), (11, [5, 2, 2, 2])]
)
def test_windows_at_the_end_are_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int, sizes: list[int]
) -> None:
    monkeypatch.setattr(corpus, "CHARACTERS_IN_WINDOW", 20)
    windows = list(write(tmp_path, "abc\n" * lines).windows())
    assert [len(window.texts) for window in windows] == sizes
    assert [window.start for window in windows] == [sum(sizes[:before]) for before in range(len(sizes))]


@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz"])
def test_the_number_of_sentences_is_estimated_from_the_first_window_on(tmp_path: Path, name: str) -> None:
    draw = Random(0)
    lines = "".join(f"{draw.random()}\n" for _ in range(60_000)).encode()  # nine windows
    (tmp_path / name).write_bytes(gzip.compress(lines) if name.endswith(".gz") else lines)
    text = Corpus(tmp_path / name, SPACES)
    assert text.estimated_sentences() is None
    estimates = [text.estimated_sentences() or 0 for _ in text.windows()]
    assert len(estimates) > 8 and all(abs(estimate / 60_000 - 1) < 0.2 for estimate in estimates)
    assert estimates[-1] == 60_000


def test_windows_are_the_same_for_a_plain_file_a_compressed_one_standard_input_and_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def names(corpus: Corpus) -> list[str]:
        return [window.name({}) for window in corpus.windows()]

    monkeypatch.setattr(corpus, "CHARACTERS_IN_WINDOW", 2000)
    text = "".join(f"{'word ' * (number % 20)}\n" for number in range(300))
    wanted = names(write(tmp_path, text))
    (tmp_path / "packed").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(text.encode()))))
    for source in (tmp_path / "packed", Path("-"), io.StringIO(text)):
        assert names(Corpus(source, SPACES)) == wanted
    assert len(set(wanted)) > 5 and sorted(wanted) == wanted


def test_several_files_are_one_text(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("a b\nc")  # without a line end
    (tmp_path / "other.gz").write_bytes(gzip.compress(b"d e\n"))
    text = Corpus([tmp_path / "one", tmp_path / "other.gz"], SPACES)
    (window,) = text.windows()
    assert window.texts == ["a b", "c", "d e"] and text.estimated_sentences() == 3


def test_tabs_separate_tokens_as_in_elmo_for_many_langs(tmp_path: Path) -> None:
    """Compared with its own reader, which differs for empty lines and for tabs at both ends of a file."""
    content = "New York\tis  \tbig\n\tempty\t\tfields\t\n \n日本語\t🙂\nend\n"
    (window,) = write(tmp_path, content, JustTabsTokenizer()).windows()
    _, wanted = read_corpus(str(tmp_path / "text"))
    assert [sentence.tokens for sentence in window.sentences] == wanted
    (window,) = write(tmp_path, "\ta\t\r\n\n", JustTabsTokenizer()).windows()
    assert window.sentences == [Sentence("\ta\t", ["", "a", ""]), Sentence("", [])]


def test_conll_is_read_as_by_elmo_for_many_langs_and_is_no_plain_text(tmp_path: Path) -> None:
    (tmp_path / "text").write_text(CONLL, encoding="utf-8")
    (window,) = Corpus(tmp_path / "text", JustTabsTokenizer(), read_conll).windows()
    _, wanted = read_conll_corpus(str(tmp_path / "text"))
    assert [sentence.tokens for sentence in window.sentences] == wanted == [["The", "ca", "n't"], ["New York"]]
    with pytest.raises(ConfigurationError, match=r"text: expected one tokenized sentence per line.*CoNLL-U"):
        next(Corpus(tmp_path / "text", SPACES).windows())
    with pytest.raises(ConfigurationError, match=r"text: expected columns.*tokenized"):
        (tmp_path / "text").write_text("One sentence .\n")
        next(Corpus(tmp_path / "text", JustTabsTokenizer(), read_conll).windows())


def test_a_table_has_ids(tmp_path: Path) -> None:
    wanted = [("sp|P1", "M A L"), ("7", 'She said "no" , then')]
    tabs = 'accession\tlength\tsequence\nsp|P1\t3\tM A L\n\n7\t4\tShe said "no" , then\n'
    assert table(tmp_path, "names.tsv", tabs, "accession", "sequence") == wanted
    assert table(tmp_path, "numbers.tsv", tabs.partition("\n")[2], "1", "3") == wanted
    commas = 'sequence,accession\nM A L,sp|P1\r\n"She said ""no"" , then", 7\r\n'
    assert table(tmp_path, "names.csv", commas, "accession", "sequence") == wanted
    assert table(tmp_path, "lines.csv", '1, "two\nlines"\n', "1", "2") == [("1", "two\nlines")]


@pytest.mark.parametrize(
    ("text", "id", "said"),
    [
        ("a\tb\na\tc\n", "1", "table, line 2: expected an id of its own .* got 'a' twice"),
        ("a\tb\n\tc\n", "1", "table, line 2: expected an id of its own .* got an empty one"),
        ("a\tb\nc\n", "1", r"table, line 2: expected a row with the columns .*'c'"),
        ("id\ttext\na\tb\n", "name", r"table, line 1: expected one column 'id_column' 'name', got .*'id', 'text'"),
        ("a\tb\n", "0", "'id_column'.* counted from 1, .* got '0'"),
    ],
)
def test_a_table_without_such_ids_is_an_error(tmp_path: Path, text: str, id: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        table(tmp_path, "table", text, id, "2")


def test_a_text_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    for name in ("nowhere", "."):
        with pytest.raises(ConfigurationError, match="expected a text file"):
            Corpus(tmp_path / name, SPACES)
    with pytest.raises(ConfigurationError, match=r"expected a `Path`.*text'"):
        Corpus("the/text", SPACES)
