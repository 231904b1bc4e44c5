"""The command with each of its options. Each wrong use ends with one line and exit code 1."""

import re
from pathlib import Path

import pytest

from tests.commands.alone import run
from tests.oracles import write_files
from tests.task_oracles import small_bilm

LINES = ["They play in a play .", "The bank lent us money .", "He sat by the river .", "The bank of the river ."]
BANK = ("--query", "A bank .", "--word", "bank")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a text and the small biLM."""
    write_files(tmp_path, small_bilm())
    (tmp_path / "text").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_prints_a_table_per_query(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("nearest-contexts", "weights.hdf5", "text", "--query", "A play .", "--word", "play", *BANK, "--k", 3)
    assert capsys.readouterr().out.count("| layer 2, in context | cosine |") == 2
    run("nearest-contexts", "weights.hdf5", "text", *BANK, "--layer", 1, "--same-word", "--sentences", 3)
    *_, head, _, row = capsys.readouterr().out.splitlines()
    assert head.startswith("| layer 1,") and row.startswith("| The **bank** lent us money . |")


def test_an_error_is_one_line(folder: Path) -> None:
    with pytest.raises(SystemExit, match=r"^nearest-contexts: .*got 1 --query and 2 --word$"):
        run("nearest-contexts", "weights.hdf5", "text", *BANK, "--word", "A")


def test_without_a_query_it_lists_frequent_words_each_with_a_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("nearest-contexts", "english-tiny", "text", "--sentences", 4)
    assert capsys.readouterr().out.splitlines()[4:7] == [
        "| play | They **play** in a play . | 2 |",
        "| bank | The **bank** lent us money . | 2 |",
        "| river | He sat by the **river** . | 2 |",
    ]


@pytest.mark.slow
def test_it_compares_texts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, word in (("1840s", "river"), ("1880s", "money"), ("1920s", "blood")):
        lines = [f"The bank of the {word} {n} .\n" for n in range(5)]
        (folder / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
    texts = ("1920s.txt", "1840s.txt", "1880s.txt")
    run("nearest-contexts", "weights.hdf5", *texts, "--group", *BANK, "--draw", "plots", "--k", 3)
    svg = (folder / "plots/contexts_1.svg").read_text(encoding="utf-8")
    places = [svg.index(f">{text}</text>") for text in ("1920s (5)", "1840s (5)", "1880s (5)", "the query")]
    assert places == sorted(places)
    assert "| text |" in (folder / "plots/contexts.md").read_text(encoding="utf-8")
    printed = capsys.readouterr().out
    run("nearest-contexts", "weights.hdf5", *texts, *BANK, "--k", 3)
    assert capsys.readouterr().out == printed  # the nearest of all texts


def test_numbers_of_uses_in_one_place_stand_beside_each_other(folder: Path) -> None:
    lines = ["The bank lent us money .", "The bank of the river ."]
    (folder / "text").write_text("\n".join([*lines, lines[0], "A bank holiday ."]) + "\n", encoding="utf-8")
    run("nearest-contexts", "weights.hdf5", "text", *BANK, "--draw", "plots", "--k", 4)
    svg = (folder / "plots/contexts_1.svg").read_text(encoding="utf-8")
    (pair,) = re.findall(r">(\d, \d)</text>", svg)
    others = {"1", "2", "3", "4"} - {*pair.split(", ")}
    assert all(f">{number}</text>" in svg for number in others)
    rows = (folder / "plots/contexts.md").read_text(encoding="utf-8").splitlines()
    assert all(any(row.startswith(f"| {n} |") and "lent us money" in row for row in rows) for n in pair.split(", "))


def test_what_cannot_be_searched_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "plots").mkdir()
    (folder / "raw").write_text("It rained, again.\n" * 9, encoding="utf-8")
    for arguments, fact in (
        (("weights.hdf5", "text", *BANK, "--draw", "plots"), "plots exists already"),
        (("weights.hdf5", "text", *BANK, "--group"), "several texts"),
        (("weights.hdf5", "text", "raw", *BANK, "--senses"), "expected one text"),
        (("nowhere", "text"), "nowhere"),
    ):
        with pytest.raises(SystemExit, match=fact):
            run("nearest-contexts", *arguments)
    run("nearest-contexts", "weights.hdf5", "raw", "--query", "It rained .", "--word", "rained")
    assert "raw looks untokenized" in capsys.readouterr().err


def test_it_draws_the_uses_of_the_word_by_sense(folder: Path) -> None:
    senses = ["The\tO\nbank\tmoney\nlent\tO\n", "A\tO\nbank\triver\n", "bank\tmoney\nand\tO\nbank\tO\n"]
    (folder / "senses").write_text("\n".join(senses), encoding="utf-8")
    run("nearest-contexts", "weights.hdf5", "senses", *BANK, "--senses", "--draw", "plots", "--k", 2)
    files = {path.name: path.read_text(encoding="utf-8") for path in (folder / "plots").iterdir()}
    assert files.keys() == {"contexts.html", "contexts.md", "contexts_1.svg"}
    assert "| 1 | " in files["contexts.md"] and "| 3 | " not in files["contexts.md"].split("line |")[1]
    shown = ("money (2)", "river (1)", "no sense (1)", "the query", "1", "2")
    assert all(f">{text}</text>" in files["contexts_1.svg"] for text in shown)
