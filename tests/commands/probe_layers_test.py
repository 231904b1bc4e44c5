"""The command with each of its options. Each wrong use ends with one line and exit code 1."""

from pathlib import Path

import pytest

from elmo_plugin.analysis import probe, probing, random_twin, tagging_task
from elmo_plugin.embedding import load
from elmo_plugin.models import ColumnTagsReader
from tests.commands.alone import run
from tests.oracles import write_files
from tests.task_oracles import TOWNS, L, small_bilm


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: the small biLM, and words with senses."""
    write_files(tmp_path, small_bilm())
    (tmp_path / "senses").write_text("1|the|O\n2|bank|bank%1\n\n1|a|O\n2|bank|bank%2\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def accuracies(page: str) -> list[list[float]]:
    """Return the numbers of the table: a row for the baseline, then one per layer."""
    cells = [line[2:-2].split(" | ")[1:] for line in page.splitlines() if line.startswith("|")]
    return [[float(cell) for cell in row] for row in cells[2:]]


def test_tags_beside_the_control(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("probe-layers", "weights.hdf5", "--tags", TOWNS, TOWNS, "--control", "--seed", 3, "--sentences", 9)
    page = capsys.readouterr().out
    embedder, task = load("weights.hdf5"), tagging_task(TOWNS, TOWNS, ColumnTagsReader(max_instances=9))
    columns = [probe(embedder, task), probe(random_twin(embedder, 3), task)]
    wanted = [[column.most_frequent, *column.layers] for column in columns]
    assert accuracies(page) == [pytest.approx(row, abs=0.006) for row in zip(*wanted, strict=True)]
    assert "| layer | weights.hdf5 | random weights |" in page


def test_a_file_with_one_tag_is_one_clear_line(folder: Path) -> None:
    (folder / "one").write_text("The X\nship X\n\nLeft X\n\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"^probe-layers: one: expected two tags or more, got only {'X'}"):
        run("probe-layers", "weights.hdf5", "--tags", "one", TOWNS)
    run("probe-layers", "weights.hdf5", "--tags", TOWNS, "one", "--sentences", 9)


def test_senses_by_columns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = ("--delimiter", "|", "--token-column", 1, "--tag-column", 2)
    run("probe-layers", "weights.hdf5", "--senses", "senses", "senses", *columns)
    page = accuracies(capsys.readouterr().out)
    assert page[0] == [50.0] and page[2:] == [[100.0]] * (L - 1)


def test_pseudowords(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("short").write_text("The ship sank .\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"^probe-layers: short: expected 100 pairs"):
        run("probe-layers", "weights.hdf5", "--pseudowords", "short")
    monkeypatch.setattr(probing, "MIN_COUNT", 5)
    lines = [f"the {n} {word} {'left' * (n % 3)} ." for n in range(12) for word in ("boat", "ship", "sea", "lake")]
    (folder / "text").write_text("\n".join(lines), encoding="utf-8")
    run("probe-layers", "weights.hdf5", "--pseudowords", "text", "--pairs", 2)
    assert len(accuracies(capsys.readouterr().out)) == 1 + L
