"""`elmo-plugin prepare-text`: raw text to tokenized sentences."""

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from elmo_plugin.text import SentenceSplitter, TextFile, paragraphs
from tests.commands.alone import run

WRAPPED = """Chapter I

Greta didn't sail to Port
Orrin. "Why?" asked Mr.
Quill.

It rained.
"""


def test_wrapped_lines_are_joined_and_paragraphs_kept_apart(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(WRAPPED, encoding="utf-8")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"It rained.\n"))
    run("prepare-text", tmp_path / "*.txt*", tmp_path / "text.txt", "--drop-duplicates")
    assert (tmp_path / "text.txt").read_text(encoding="utf-8").splitlines() == [
        "Chapter I",
        "Greta did n't sail to Port Orrin .",
        '" Why ? " asked Mr. Quill .',
        "It rained .",
    ]


def test_a_line_of_a_text_that_is_not_wrapped_is_a_paragraph() -> None:
    lines = ["A title without a full stop\n", f"{'Some words follow. ' * 20}\n", f"{'Others too. ' * 20}\n"]
    assert len(list(paragraphs(lines))) == 3
    assert list(paragraphs(["One line\n", "another line\n"])) == ["One line", "another line"]


@pytest.mark.parametrize(("language", "mark"), [("de", "."), ("hi", "।"), ("ar", "؟"), ("xx", ".")])
def test_languages_split_sentences(language: str, mark: str) -> None:
    sentences = list(SentenceSplitter(language).sentences([f"Anna Lind{mark} Otto Berg{mark}"]))
    assert [sentence[:2] for sentence in sentences] == [["Anna", "Lind"], ["Otto", "Berg"]]


def test_shards_and_heldout_text_share_no_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "raw.txt").write_text("".join(f"This is sentence {n}.\n\n" for n in range(400)), encoding="utf-8")
    run("prepare-text", tmp_path / "raw.txt", tmp_path / "corpus", "--shards", 2, "--heldout", 10)
    parts = {path.name: list(TextFile(path).lines()) for path in sorted((tmp_path / "corpus").iterdir())}
    assert [name[:11] for name in parts] == ["heldout.txt", "train-00000", "train-00001"]
    assert [len(lines) for lines in parts.values()] == [40, 180, 180]
    assert len({line for lines in parts.values() for line in lines}) == 400
    run("prepare-text", tmp_path / "raw.txt", tmp_path / "all", "--shards", 2)
    assert "LM_HELDOUT" not in capsys.readouterr().err.splitlines()[-1]


def test_an_error_is_one_line_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("raw.txt").write_text("One sentence.\n", encoding="utf-8")
    Path("windows.txt").write_text("One sentence.\n", encoding="utf-16")
    Path("blank.txt").write_text("\n \n", encoding="utf-8")
    Path("folder").mkdir()
    for arguments, fact in (
        (["windows.txt", "out.txt"], "iconv -f UTF-16"),
        (["blank.txt", "out.txt"], "blank.txt: expected text"),
        (["folder", "out.txt"], r"folder/\*"),
        (["nowhere*.txt", "out.txt"], "nowhere"),
        (["raw.txt", "raw.txt"], "exists already"),
        (["raw.txt", "out", "--heldout", 2], "1 sentences"),
    ):
        with pytest.raises(SystemExit, match=fact):
            run("prepare-text", *arguments)
    assert {path.name for path in tmp_path.rglob("*.txt")} == {"blank.txt", "raw.txt", "windows.txt"}


def test_two_runs_at_once_write_what_one_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.txt").write_text("It rained .\n\n" * 300, encoding="utf-8")
    sentences = SentenceSplitter.sentences

    def with_another_run(splitter: SentenceSplitter, blocks: Iterable[str]) -> Iterator[list[str]]:
        for number, sentence in enumerate(sentences(splitter, blocks)):
            if number == 200:
                monkeypatch.undo()
                run("prepare-text", tmp_path / "text.txt", tmp_path / "output.txt")
            yield sentence

    monkeypatch.setattr(SentenceSplitter, "sentences", with_another_run)
    run("prepare-text", tmp_path / "text.txt", tmp_path / "output.txt")
    assert (tmp_path / "output.txt").read_text(encoding="utf-8") == "It rained .\n" * 300
    assert len(list(tmp_path.iterdir())) == 2
