"""The command with each of its options. Each wrong use ends with one line and exit code 1."""

import re
from pathlib import Path

import pytest

from tests.oracles import write_files
from tests.task_oracles import allennlp, small_bilm, warm_bilm

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
    return [row for row in table if row[1] != "cosine" and row[1] != "---:"]


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("weights.hdf5", "text", *PLAY, "--word", "A"), "got 1 --query and 2 --word"),
        (
            ("weights.hdf5", "text", "--query", "A play .", "--word", "cat"),
            "'word': expected one of the tokens ['A', 'play', '.'], got 'cat'",
        ),
        (("weights.hdf5", "text", *PLAY, "--layer", 3), "'layer': expected 0 (the token layer) to 2, got 3"),
        (("weights.hdf5", "nowhere", *PLAY), "nowhere"),
        (("weights.hdf5", "empty", *PLAY), "no token"),
        (("nowhere", "text", *PLAY), "nowhere"),
    ],
)
def test_an_error_is_one_line(folder: Path, arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(SystemExit) as error:
        allennlp("nearest-contexts", *arguments)
    text = str(error.value)
    assert text.startswith("nearest-contexts: ") and message in text and "\n" not in text


def test_zero_neighbors_are_rejected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        allennlp("nearest-contexts", "weights.hdf5", "text", *PLAY, "--k", 0)
    assert "argument --k: expected a whole number of 1 or more, got '0'" in capsys.readouterr().err


def test_it_starts_warm_on_request(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_files(folder / "warm", warm_bilm())
    found = []
    for state in ("zero", "warm"):
        allennlp("nearest-contexts", "warm", "text", *BANK, "--initial-state", state)
        found.append([row[1] for row in rows(capsys.readouterr().out)])
    assert found[0] != found[1]
    with pytest.raises(SystemExit, match=r"^nearest-contexts: .*holds no warm state"):
        allennlp("nearest-contexts", "weights.hdf5", "text", *BANK, "--initial-state", "warm")
