"""LitBank's development set without the works that the bundled biLM has read."""

from pathlib import Path

import pytest

from experiments import litbank


def sentence(words: str) -> str:
    """Return lines of a token and a tag; the last token is an event."""
    *tokens, last = words.split()
    return "".join(f"{token}\tO\n" for token in tokens) + f"{last}\tEVENT"


def test_the_works_that_were_read_are_left_out(tmp_path: Path) -> None:
    works = [f"{start} {number}" for number, start in enumerate(litbank.STARTS.values())]
    sentences = [sentence(words) for work in ["An unknown work", *works] for words in (work, "Its second sentence")]
    (tmp_path / "dev.tsv").write_text("\n\n".join(sentences) + "\n", encoding="utf-8")
    litbank.main([str(tmp_path / "dev.tsv"), str(tmp_path / "runs/unread.tsv")])
    kept = (tmp_path / "runs/unread.tsv").read_text(encoding="utf-8").strip().split("\n\n")
    titles = [*litbank.STARTS]
    read = {2 + 2 * titles.index(title) + line for title in litbank.READ for line in (0, 1)}
    assert kept == [text for index, text in enumerate(sentences) if index not in read]


def test_another_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text(sentence("Mira laughed"), encoding="utf-8")
    with pytest.raises(ValueError, match="Silas Marner"):
        litbank.main([str(tmp_path / "train.tsv"), str(tmp_path / "unread.tsv")])
