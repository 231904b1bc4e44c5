"""The report of runs written by hand: its tables, its figures, and the page as a whole."""

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import Report, write_report
from tests.report_runs import tagger_config, write_json, write_pretraining, write_run

pytestmark = pytest.mark.slow  # a report with all its figures is drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task with two variants, two seeds and three fractions; a task with one run; a biLM; and an unfinished run."""
    folder = tmp_path_factory.mktemp("grid")
    for variant, score in {"none": 0.5, "both": 0.7}.items():
        for seed in (1, 2):
            for fraction in (0.1, 0.3, 1):
                place = {"task": "towns", "variant": variant, "seed": seed, "fraction": fraction, "commit": "1a2b3c4"}
                scores = [score - 0.3, score - 0.15 + 0.1 * fraction + 0.02 * seed]
                write_run(folder / f"{variant}-{fraction}-{seed}", tagger_config(seed), scores, **place)
    write_json(folder / "both-1-1/layer_weights.json", {"input": {"weights": [0.2, 0.5, 0.3], "gamma": 1.5}})
    opinions = write_run(folder / "<b>", tagger_config(1), [0.75], task="opinions", variant="<b> $1$ a|b")
    metrics = json.loads((opinions / "metrics.json").read_text())
    write_json(opinions / "metrics.json", {**metrics, "best_validation_f1-measure-glad": 0.8})
    write_pretraining(folder / "bilm", [(float("inf"), 800.0), (100.0, 81.0)])
    write_json(folder / "begun/config.json", tagger_config(3))
    return folder


@pytest.fixture(scope="module")
def report(grid: Path, tmp_path_factory: pytest.TempPathFactory) -> Report:
    return write_report([grid], tmp_path_factory.mktemp("page"))


def text_of(report: Report, name: str) -> str:
    (path,) = (path for path in report.files if path.name == name)
    return path.read_text(encoding="utf-8")


def test_the_tables(report: Report) -> None:
    page = text_of(report, "report.md")
    # For both, 0.7 - 0.15 + 0.1 + 0.02 · seed: 67 and 69, whose deviation is √2.
    assert "| both |  |  | 68.00 ± 1.41 (2) |\n" in page
    assert "| \\<b\\> $1$ a\\|b |  | 75.00 (1) |  |\n" in page
    assert "| task | variant | 10 % | 30 % | 100 % |\n" in page
    assert "| towns: accuracy, % | both | 59.00 ± 1.41 (2) | 61.00 ± 1.41 (2) | 68.00 ± 1.41 (2) |\n" in page
    assert "| towns: accuracy, % | both | input | 0.20 (1) | 0.50 (1) | 0.30 (1) | 1.50 (1) |\n" in page
    assert "| opinions: accuracy, % | glad | 80.00 (1) |\n" in page
    assert "| bilm | 100.0 | 81.0 | 90.0 | 0.025 | 12345 |\n" in page
    assert "| begun | unfinished: no metrics.json; epochs done: 0 |\n" in page
    assert "| none-1-2 | towns: accuracy, % | none | 100.0 | 2 | 49.0 | 2 | 0:00:07 |" in page and "| 1a2b3c4 |" in page
    assert "elmo-plugin report-elmo" in page


def test_the_html_page_escapes_names_and_needs_no_other_file(report: Report) -> None:
    html, page = text_of(report, "report.html"), text_of(report, "report.md")
    assert "<b>" not in html and "&lt;b&gt; $1$ a|b" in html
    assert re.findall('href="(.*?)"', html) == [f"#{name}" for name in re.findall('<h2 id="(.*?)"', html)]
    images = re.findall('<img src="(.*?)"', html)
    assert len(images) == len(report.files) - 2 == 8
    assert all(image.startswith("data:image/svg+xml;base64,") for image in images)
    assert sorted(path.name for path in report.files if path.suffix == ".svg") == re.findall(r"\]\((.*?)\)", page)
    assert any(">none</text>" in text_of(report, name) for name in re.findall(r"\]\((.*?)\)", page))


def test_figures_can_stand_in_an_article(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from elmo_plugin.analysis import figure_pages

    write_run(tmp_path / "runs/one-1", tagger_config(1), [0.5, 0.75], "f1-measure-overall", task="one", variant="v")
    write_pretraining(tmp_path / "runs/bilm", [(90.0, 80.0)])
    write_json(tmp_path / "runs/one-1/layer_weights.json", {"input": {"weights": [0.2, 0.8], "gamma": 1.5}})
    figures: dict[str, Figure] = {}

    def keep(*args: Any) -> list[Path]:
        for section in args[-1]:
            figures.update(section.figures)
        return original(*args)

    original = figure_pages.write_page
    monkeypatch.setattr(figure_pages, "write_page", keep)
    page = write_report([tmp_path / "runs"], tmp_path / "page")
    titles = "".join(text_of(page, path.name) for path in page.files if path.suffix == ".svg")
    for title in ("Span F1 on one (%)", "Perplexity on news", "Weight of the layer on one", "Epoch"):
        assert f">{title}</text>" in titles
    # The only run stands in the middle of its figure, not on its edge.
    bottom, top = figures["Scores, one: span F1, %"].axes[0].get_ylim()
    assert (bottom, top) == (0.5, -0.5)
    assert figures["Scores, one: span F1, %"].axes[0].get_xlim()[1] <= 100
    (bars,) = figures["Layer weights, one: span F1, %"].axes
    assert bars.get_axisbelow() is True and not any(line.get_visible() for line in bars.get_ygridlines())
    (legend,) = figures["Learning curves, news: perplexity"].legends  # pretraining has no training scores
    assert [text.get_text() for text in legend.get_texts()] == ["validation"]


def test_a_failed_report_leaves_the_old_one(grid: Path, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = report.files[0].parent
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ConfigurationError, match="begun"):
        write_report([grid / "begun"], folder)
    monkeypatch.delitem(sys.modules, "elmo_plugin.analysis.figure_pages")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigurationError, match=r"pandas.*pip install 'elmo-plugin\[report\]'"):
        write_report([grid / "bilm"], folder)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
