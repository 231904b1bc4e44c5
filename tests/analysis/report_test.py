"""The report of runs written by hand: its tables, its figures, and the page as a whole."""

import re
import sys
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import Report, write_report
from tests.report_runs import tagger_config, write_json, write_pretraining, write_run

VARIANTS = {"none": (None, 0.5), "both": ({}, 0.7)}


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task with two variants, two seeds and three fractions; a classifier; a biLM; an unfinished and a broken run."""
    folder = tmp_path_factory.mktemp("grid")
    for variant, (elmo, score) in VARIANTS.items():
        for seed in (1, 2):
            for fraction in (0.1, 0.3, 1):
                name = f"{variant}-{fraction}-{seed}"
                place = {"task": "towns", "variant": variant, "seed": seed, "fraction": fraction, "commit": "1a2b3c4"}
                scores = [score - 0.3, score - 0.15 + 0.1 * fraction + 0.02 * seed]
                write_run(folder / name, tagger_config(seed, elmo), scores, **place)
    mixes = {"input": {"weights": [0.2, 0.5, 0.3], "gamma": 1.5}}
    write_json(folder / "both-1-1/layer_weights.json", mixes)
    write_run(folder / "opinions/<b>-1", tagger_config(1, {}), [0.75], task="opinions", variant="<b> $1$ a|b")
    write_json(folder / "opinions/<b>-1/confusion.json", {"labels": ["glad", "sour"], "counts": [[3, 1], [1, 3]]})
    (folder / "opinions/<b>-1/best.th").write_bytes(b"spoiled")
    write_pretraining(folder / "bilm", [(float("inf"), 800.0), (100.0, 81.0)], training_n_tokens=500_000)
    write_json(folder / "begun/config.json", tagger_config(3))
    return folder


@pytest.fixture(scope="module")
def report(grid: Path, tmp_path_factory: pytest.TempPathFactory) -> Report:
    return write_report([grid], tmp_path_factory.mktemp("page"))


def text_of(report: Report, name: str) -> str:
    (path,) = (path for path in report.files if path.name == name)
    return path.read_text(encoding="utf-8")


@pytest.fixture
def page(report: Report) -> str:
    return text_of(report, "report.md")


def test_the_head_names_date_commit_and_command(page: str, grid: Path) -> None:
    assert re.search(
        r"runs: 14, the newest from \d{4}-\d\d-\d\d, .*1a2b3c4.*elmo-plugin report-elmo", page.splitlines()[2]
    )


def test_scores_are_means_and_deviations_over_seeds_with_the_most_data(page: str) -> None:
    # For both, 0.7 - 0.15 + 0.1 + 0.02 · seed: 67 and 69, whose deviation is √2. Variants without ELMo come first.
    assert (
        "| variant | opinions: accuracy, % | towns: accuracy, % |\n| --- | --- | --- |\n"
        "| none |  | 48.00 ± 1.41 (2) |\n| \\<b\\> $1$ a\\|b | 75.00 (1) |  |\n| both |  | 68.00 ± 1.41 (2) |\n"
    ) in page


def test_scores_by_fraction_name_the_share_that_matches_the_baseline_with_all_data(page: str) -> None:
    assert "| task | variant | 10 % of the data | 30 % of the data | 100 % of the data |\n" in page
    assert "| towns: accuracy, % | both | 59.00 ± 1.41 (2) | 61.00 ± 1.41 (2) | 68.00 ± 1.41 (2) |\n" in page
    assert "towns: accuracy, %: both reaches 59.0 with 10 % of the data; none reaches 48.0 with 100 %." in page


def test_layer_weights_labels_confusion_and_perplexity_have_tables(page: str) -> None:
    assert "| towns: accuracy, % | both | input | 0.20 (1) | 0.50 (1) | 0.30 (1) | 1.50 (1) |\n" in page
    assert "| opinions: accuracy, % | glad | 75.00 (1) |\n" in page
    assert "| opinions: accuracy, % | \\<b\\> $1$ a\\|b | 75.00 (1) | 75.00 (1) |\n" in page
    assert "| bilm | 100.00 | 81.00 | 90.00 | 2.50 | 12,345 | 2 |\n" in page


def test_runs_that_are_not_counted_or_not_read_completely_are_listed(page: str) -> None:
    assert "| begun | unfinished: no metrics.json; epochs done: 0 |\n" in page
    assert "| opinions/\\<b\\>-1 | 'best.th' holds no readable weights" in page


def test_the_html_page_escapes_names_and_needs_no_other_file(report: Report, page: str) -> None:
    html = text_of(report, "report.html")
    assert "<b>" not in html and "&lt;b&gt; $1$ a|b" in html
    assert re.findall('href="(.*?)"', html) == [f"#{name}" for name in re.findall('<h2 id="(.*?)"', html)]
    images = re.findall('<img src="(.*?)"', html)
    assert len(images) == len(report.files) - 2 == 8
    assert all(image.startswith("data:image/svg+xml;base64,") for image in images)
    assert [path.name for path in report.files if path.suffix == ".svg"] == sorted(re.findall(r"\]\((.*?)\)", page))


def test_figures_have_labels(report: Report) -> None:
    scores, matrix = text_of(report, "scores_towns_accuracy.svg"), text_of(report, "confusion_opinions_accuracy.svg")
    assert all(f">{text}</text>" in scores for text in ("none", "both", "towns: accuracy, %"))
    assert all(f">{text}</text>" in matrix for text in ("glad", "sour", "75%", "&lt;b&gt; $1$ a|b"))
    assert ">both, input</text>" in text_of(report, "layer_weights_towns_accuracy.svg")
    assert ">tokens trained on, millions</text>" in text_of(report, "perplexity.svg")


def test_a_failed_report_leaves_the_old_one(grid: Path, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = report.files[0].parent
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ConfigurationError, match="begun"):
        write_report([grid / "begun"], folder)
    monkeypatch.delitem(sys.modules, "elmo_plugin.analysis.rendering")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigurationError, match=r"pandas.*pip install 'elmo-plugin\[report\]'"):
        write_report([grid / "bilm"], folder)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
