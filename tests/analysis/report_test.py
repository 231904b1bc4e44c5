import json
import re
import sys
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from typing import Any, Optional

import pytest
from allennlp.common.checks import ConfigurationError
from matplotlib.figure import Figure
from PIL import Image

from elmo_plugin.analysis import Report, rendering, write_report
from elmo_plugin.analysis.panels import styled
from tests.report_runs import tagger_config, write_json, write_pretraining, write_run

VARIANTS = {"none": (None, 0.5), "both": ({}, 0.7)}


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task with two variants, two seeds and three fractions, one run with layer weights; a classifier; a biLM."""
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
    write_run(folder / "opinions/both-1", tagger_config(1, {}), [0.75], task="opinions", variant="both")
    matrix = {"labels": ["glad", "sour"], "counts": [[3, 1], [1, 3]]}
    write_json(folder / "opinions/both-1/confusion.json", matrix)
    write_pretraining(folder / "bilm", [(900.0, 800.0), (100.0, 81.0)], training_n_tokens=500_000)
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
    head = page.partition("##")[0]
    assert re.search(r"14 finished runs, the newest from \d{4}-\d\d-\d\d, .*1a2b3c4", head)
    assert f"`allennlp report-elmo {grid} --output" in head


def test_names_in_a_run_are_escaped(tmp_path: Path) -> None:
    script = "<script>alert(1)</script>"
    place = {"task": script, "variant": script, "seed": 1, "fraction": 1.0, "commit": script}
    write_run(tmp_path / "runs" / script, tagger_config(1, {}), [0.5], **place)
    page = text_of(write_report([tmp_path / "runs"], tmp_path / "page"), "report.html")
    assert "&lt;script&gt;" in page and "<script>" not in page


def test_scores_are_means_and_deviations_over_seeds_with_the_most_data(page: str) -> None:
    # For both, 0.7 - 0.15 + 0.1 + 0.02 · seed: 67 and 69, whose deviation is √2
    assert "| variant | opinions: accuracy, % |\n| --- | ---: |\n| both | 75.00 (1) |\n\n" in page
    assert (
        "| variant | towns: accuracy, % |\n| --- | ---: |\n| none | 48.00 ± 1.41 |\n| both | **68.00 ± 1.41** |\n"
    ) in page


def test_scores_by_fraction_name_the_share_that_matches_the_baseline_with_all_data(page: str) -> None:
    assert "| towns: accuracy, % | 10 % of the data | 30 % of the data | 100 % of the data |\n" in page
    assert "| both | 59.00 ± 1.41 | 61.00 ± 1.41 | 68.00 ± 1.41 |\n" in page
    assert "towns: **both** reaches 59.0 with 10 % of the data; **none** reaches 48.0 with 100 %." in page


def test_layer_weights_confusion_and_perplexity_have_tables(page: str) -> None:
    assert "| input | towns | both | 1.50 | 0.20 | 0.50 | 0.30 |\n" in page
    assert "| opinions | both | 75.00 | 75.00 | 1 |\n" in page
    assert "| bilm | 100.00 | 81.00 | 90.00 | 2.50 | 12,345 | 2 |\n" in page


def test_runs_that_are_not_counted_or_not_read_completely_are_listed(page: str, tmp_path: Path) -> None:
    assert "| begun | unfinished: no metrics.json; epochs done: 0 |\n" in page
    folder = write_run(tmp_path / "towns/<b>-1", tagger_config(1), [0.5])
    (folder / "best.th").write_bytes(b"spoiled")
    report = write_report([tmp_path], tmp_path / "page")
    single = text_of(report, "report.md")
    assert "1 finished run, " in single and "±" not in single and "**Bold**" not in single
    assert "| towns/\\<b\\>-1 | 'best.th' holds no readable weights" in single
    assert "&lt;b&gt;-1" in text_of(report, "report.html")


def test_a_name_may_have_any_characters_and_shares_no_picture(tmp_path: Path) -> None:
    variants = ("_x", "US$ and A$", "$x^$")
    for task in ("a b", "a+b", "größe"):
        for variant in variants:
            for fraction in (0.1, 1):
                place = {"task": task, "variant": variant, "fraction": fraction}
                write_run(tmp_path / f"runs/{task}/{variant}-{fraction}", tagger_config(1, {}), [0.5], **place)
    write_pretraining(tmp_path / "runs/_bilm", [(90.0, 81.0)])
    report = write_report([tmp_path / "runs"], tmp_path / "page")
    assert len([path for path in report.files if path.name.startswith("learning_curves")]) == 3
    for variant in variants:
        assert f">{variant}</text>" in text_of(report, "scores.svg")
        assert f">{variant}</text>" in text_of(report, "sample_efficiency.svg")
    assert ">_bilm</text>" in text_of(report, "perplexity.svg")


def test_seeds_with_other_numbers_of_layers_are_not_averaged(tmp_path: Path) -> None:
    for seed, weights in ((1, [0.5, 0.5]), (2, [0.2, 0.3, 0.5])):
        folder = write_run(tmp_path / f"runs/towns/both-{seed}", tagger_config(seed, {}), [0.5])
        write_json(folder / "layer_weights.json", {"input": {"weights": weights, "gamma": 1}})
    with pytest.raises(ConfigurationError, match=r"'both' of task 'towns': expected .* layers .*, got 2 and 3"):
        write_report([tmp_path / "runs"], tmp_path / "page")


def test_a_page_links_to_all_pictures_beside_it_and_to_no_others(report: Report, page: str) -> None:
    pictures = [path.name for path in report.files if path.suffix == ".svg"]
    assert pictures == [
        "confusion_opinions_accuracy.svg",
        "layer_weights.svg",
        "learning_curves_opinions_accuracy.svg",
        "learning_curves_towns_accuracy.svg",
        "perplexity.svg",
        "sample_efficiency.svg",
        "scores.svg",
    ]
    assert pictures == sorted(re.findall(r"\]\((.*?)\)", page))
    assert sorted(report.files) == sorted(report.files[0].parent.iterdir())
    assert sum(path.stat().st_size for path in report.files) < 1_000_000


class Outline(HTMLParser):
    """Collects all elements of a page, and fails if a closing tag does not match the last open element."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, Optional[str]]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Optional[str]]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    handle_startendtag = handle_starttag

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_html_page_is_well_formed_and_needs_no_other_file(report: Report) -> None:
    outline = Outline()
    outline.feed(text_of(report, "report.html"))
    assert outline.open == []
    links = [attributes["href"] for tag, attributes in outline.seen if tag == "a"]
    assert links == ["#" + str(attributes["id"]) for tag, attributes in outline.seen if tag == "h2"]
    images = [attributes for tag, attributes in outline.seen if tag == "img"]
    assert len(images) == 7 and all(image["alt"] for image in images)
    assert all(str(image["src"]).startswith("data:image/svg+xml;base64,") for image in images)
    assert not [value for _, attributes in outline.seen for value in attributes.values() if "http" in str(value)]


def test_figures_have_labels_and_nothing_is_cut_off(
    grid: Path, report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores, matrix = text_of(report, "scores.svg"), text_of(report, "confusion_opinions_accuracy.svg")
    assert all(f">{text}</text>" in scores for text in ("none", "both", "towns", "68.0", "with ELMo"))
    assert all(f">{text}</text>" in matrix for text in ("glad", "sour", "75%"))
    assert ">none</text>" not in text_of(report, "layer_weights.svg")  # the variant has no layer weights

    @styled
    def check(figure: Figure) -> bytes:
        file = BytesIO()
        figure.savefig(file, format="png")
        picture = Image.open(file).convert("L")
        width, height = picture.size
        edges = [(0, 0, width, 1), (0, height - 1, width, height), (0, 0, 1, height), (width - 1, 0, width, height)]
        assert {picture.crop(edge).getextrema()[0] for edge in edges} == {255}
        return b""

    monkeypatch.setattr(rendering, "svg", check)
    write_report([grid], tmp_path / "page")


def test_the_same_runs_give_the_same_bytes(
    report: Report, grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    again = write_report([grid], tmp_path / "again")
    assert [path.read_bytes() for path in again.files] == [path.read_bytes() for path in report.files]


def test_perplexity_is_drawn_by_epochs_without_a_count_of_tokens(tmp_path: Path) -> None:
    write_pretraining(tmp_path / "runs/sampled", [(float("inf"), 800.0), (90.0, 81.0)])
    files = write_report([tmp_path / "runs"], tmp_path / "page").files
    assert [path.name for path in files] == ["perplexity.svg", "report.html", "report.md"]
    assert ">epoch</text>" in files[0].read_text(encoding="utf-8")


@pytest.mark.parametrize("value", ["many", {}, [1], None, 10**400])
def test_a_metric_that_is_not_a_number_is_nan(tmp_path: Path, value: Any) -> None:
    run = write_pretraining(tmp_path / "runs/bilm", [(90.0, 81.0)], training_n_tokens=10)
    for file in ("metrics_epoch_0.json", "metrics.json"):
        metrics = json.loads((run / file).read_text())
        kept = {key: metrics[key] for key in ("best_validation_perplexity",) if key in metrics}
        write_json(run / file, {**dict.fromkeys(metrics, value), **kept})
    write_run(tmp_path / "runs/towns/none-1", tagger_config(1), [0.5])
    metrics = json.loads((tmp_path / "runs/towns/none-1/metrics.json").read_text())
    write_json(tmp_path / "runs/towns/none-1/metrics.json", {**metrics, "best_epoch": value})
    page = text_of(write_report([tmp_path / "runs"], tmp_path / "page"), "report.md")
    assert "| nan | nan | 85.38 | nan | nan |" in " ".join(page.split())


def test_a_failed_report_leaves_the_old_one(
    grid: Path, report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = report.files[0].parent
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ConfigurationError, match="begun"):
        write_report([grid / "begun"], folder)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigurationError, match="file' cannot be written"):
        write_report([grid / "opinions"], tmp_path / "file")
    monkeypatch.delitem(sys.modules, "elmo_plugin.analysis.rendering")
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    with pytest.raises(ConfigurationError, match=r"markdown_it.*pip install 'elmo-plugin\[report\]'"):
        write_report([grid / "opinions"], tmp_path / "page")
