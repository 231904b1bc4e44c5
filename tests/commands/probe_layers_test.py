"""The command with each of its options. Each wrong use ends with one line and exit code 1."""

import re
from pathlib import Path

import pytest

from elmo_plugin.analysis import probe, pseudowords, random_twin, tagging_task
from elmo_plugin.embedding import load
from elmo_plugin.models import ColumnTagsReader
from tests.oracles import write_files
from tests.task_oracles import TOWNS, L, allennlp, small_bilm


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
    options = ("--control", "--seed", 3, "--sentences", 9)
    allennlp("probe-layers", "weights.hdf5", "--tags", TOWNS, TOWNS, *options)
    page = capsys.readouterr().out
    embedder, task = load("weights.hdf5"), tagging_task(TOWNS, TOWNS, ColumnTagsReader(max_instances=9))
    columns = [probe(embedder, task), probe(random_twin(embedder, 3), task)]
    wanted = [[column.most_frequent, *column.layers] for column in columns]
    assert accuracies(page) == [pytest.approx(row, abs=0.006) for row in zip(*wanted, strict=True)]
    assert "| layer | weights.hdf5 | random weights |" in page
    assert f"on {columns[0].dev:,} tokens, after training on {columns[0].train:,}" in page


def test_senses_by_columns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = ("--delimiter", "|", "--token-column", 1, "--tag-column", 2)
    allennlp("probe-layers", "weights.hdf5", "--senses", "senses", "senses", *columns)
    page = capsys.readouterr().out
    assert accuracies(page)[0] == [50.0] and accuracies(page)[2:] == [[100.0]] * (L - 1)
    assert "## Senses: trained on senses, evaluated on senses\n" in page


def test_pseudowords_depend_on_the_seed_only(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pseudowords, "MIN_COUNT", 5)
    lines = [f"the {n} {word} {'left' * (n % 3)} ." for n in range(12) for word in ("boat", "ship", "sea", "lake")]
    (folder / "text").write_text("\n".join(lines), encoding="utf-8")
    drawn: list[object] = []
    draw = pseudowords.draw_pairs
    monkeypatch.setattr(pseudowords, "draw_pairs", lambda *keys: drawn.append(draw(*keys)) or drawn[-1])
    for seed in (1, 1, 2):
        allennlp("probe-layers", "weights.hdf5", "--pseudowords", "text", "--pairs", 2, "--seed", seed)
    pages = re.split(r"(?=^# )", capsys.readouterr().out, flags=re.MULTILINE)[1:]
    assert pages[0] == pages[1] and drawn[0] == drawn[1] != drawn[2]
    assert "## Pseudowords: 2 pairs of words of text\n" in pages[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("weights.hdf5", "--pseudowords", "senses"), "senses: expected 100 pairs"),
        (("weights.hdf5", "--tags", "nowhere", "senses"), "nowhere"),
        (("weights.hdf5", "--senses", "senses", "senses", "--delimiter", "-"), "senses, line 1: "),
        (("nowhere", "--tags", TOWNS, TOWNS), "nowhere"),
    ],
)
def test_an_error_is_one_line(folder: Path, arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(SystemExit) as error:
        allennlp("probe-layers", *arguments)
    text = str(error.value)
    assert text.startswith("probe-layers: ") and message in text and "\n" not in text
