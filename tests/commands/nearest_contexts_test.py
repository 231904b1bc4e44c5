"""The command with each of its options. Each wrong use ends with one line and exit code 1."""

import re
from pathlib import Path

import pytest

from tests.oracles import write_files
from tests.task_oracles import allennlp, small_bilm

LINES = ["They play in a play .", "The bank lent us money .", "He sat by the river .", "The bank of the river ."]
PLAY = ("--query", "A play .", "--word", "play")
BANK = ("--query", "A bank .", "--word", "bank")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a text and the small biLM."""
    write_files(tmp_path, small_bilm())
    (tmp_path / "text").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(page: str) -> list[list[str]]:
    """Return the cells of each row of the tables, without their heads."""
    table = [line[2:-2].split(" | ") for line in page.splitlines() if line.startswith("|")]
    return (
        table[2:] if table[0][0] in ("word", "nearest") else [row for row in table if row[1] not in ("cosine", "---:")]
    )


def test_it_prints_one_table_per_query(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    allennlp("nearest-contexts", "weights.hdf5", "text", *PLAY, *BANK, "--k", 3)
    page = capsys.readouterr().out
    assert re.findall(r"^## (.*)", page, re.MULTILINE) == ["play", "bank"]
    assert "| layer 2, in context | cosine |" in page
    assert len(rows(page)) == 6
    for context, cosine, line, _, _ in rows(page):
        assert context.replace("**", "") == LINES[int(line) - 1] and context.count("**") == 2
        assert -1 <= float(cosine) <= 1


def test_another_layer_the_same_word_and_the_first_sentences(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--layer", 1, "--same-word", "--sentences", 3)
    allennlp("nearest-contexts", "weights.hdf5", "text", *BANK, *options)
    page = capsys.readouterr().out
    assert "| layer 1, in context | cosine | line |" in page
    assert [(row[0], row[2]) for row in rows(page)] == [("The **bank** lent us money .", "2")]


def test_an_error_is_one_line(folder: Path) -> None:
    for arguments, message in (
        (("weights.hdf5", "text", *PLAY, "--word", "A"), "got 1 --query and 2 --word"),
        (("weights.hdf5", "text", *PLAY, "--layer", 3), "'layer': expected 0 (the token layer) to 2, got 3"),
        (("weights.hdf5", "empty", *PLAY), "no token"),
    ):
        with pytest.raises(SystemExit) as error:
            allennlp("nearest-contexts", *arguments)
        text = str(error.value)
        assert text.startswith("nearest-contexts: ") and message in text and "\n" not in text


def test_without_a_query_it_lists_frequent_words_each_with_a_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    allennlp("nearest-contexts", "english-tiny", "text", "--sentences", 4)
    assert rows(capsys.readouterr().out)[:3] == [
        ["play", "They **play** in a play .", "2"],
        ["bank", "The **bank** lent us money .", "2"],
        ["river", "He sat by the **river** .", "2"],
    ]


def test_it_draws_the_uses_of_the_word_by_sense(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    senses = ["The\tO\nbank\tmoney\nlent\tO\n", "A\tO\nbank\triver\n", "bank\tmoney\nand\tO\nbank\tO\n"]
    (folder / "senses").write_text("\n".join(senses), encoding="utf-8")
    options = ("--senses", "--draw", "plots", "--k", 2)
    allennlp("nearest-contexts", "weights.hdf5", "senses", "--query", "The bank lent us .", "--word", "bank", *options)
    assert sorted(path.name for path in (folder / "plots").iterdir()) == [
        "contexts.html",
        "contexts.md",
        "contexts_1.svg",
    ]
    page = (folder / "plots/contexts.md").read_text(encoding="utf-8")
    assert len(rows(page)) == 2
    assert {(row[1], row[2]) for row in rows(page)} < {
        ("The «bank» lent", "money"),
        ("A «bank»", "river"),
        ("«bank» and bank", "money"),
        ("bank and «bank»", "no sense"),
    }
    picture = (folder / "plots/contexts_1.svg").read_text(encoding="utf-8")
    assert all(
        f">{text}</text>" in picture for text in ("money (2)", "river (1)", "no sense (1)", "the query", "1", "2")
    )
