import re
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError
from PIL import Image

from elmo_plugin.analysis import Report, write_report
from tests.report_runs import tagger_config, write_json, write_pretraining, write_run

VARIANTS = {"none": (None, 0.5), "both": ({}, 0.7)}


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two variants by two seeds and three fractions of a task, one of them with layer weights; a classifier; a biLM."""
    folder = tmp_path_factory.mktemp("grid")
    for variant, (elmo, score) in VARIANTS.items():
        for seed in (1, 2):
            for fraction in (0.1, 0.3, 1):
                name = f"{variant}-{fraction}-{seed}"
                place = {"task": "towns", "variant": variant, "seed": seed, "fraction": fraction}
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


@pytest.fixture
def page(report: Report) -> str:
    return next(path for path in report.files if path.name == "report.md").read_text(encoding="utf-8")


def test_scores_are_means_and_deviations_over_seeds_with_the_most_data(page: str) -> None:
    # of both, 0.7 - 0.15 + 0.1 + 0.02 · seed: 67 and 69, whose deviation is √2
    assert "over 2 seeds, where no other number stands in brackets" in page
    assert (
        "|  | opinions: accuracy, % | towns: accuracy, % |\n| --- | ---: | ---: |\n"
        "| none |  | 48.00 ± 1.41 |\n| both | 75.00 (1) | **68.00 ± 1.41** |\n"
    ) in page


def test_scores_by_fraction_say_what_is_as_good_as_all_without_elmo(page: str) -> None:
    assert "| towns: accuracy, % | 10 % of the data | 30 % of the data | 100 % of the data |\n" in page
    assert "| both | 59.00 ± 1.41 | 61.00 ± 1.41 | 68.00 ± 1.41 |\n" in page
    assert "towns: with 10 % of the data **both** reaches 59.0, **none** with 100 % 48.0." in page


def test_layer_weights_confusion_and_perplexity_are_told(page: str) -> None:
    assert "| input | towns | both | 1.50 | 0.20 | 0.50 | 0.30 |\n" in page
    assert "| opinions | both | 75.00 | 75.00 | 1 |\n" in page
    assert "| bilm | 100.00 | 81.00 | 90.00 | 2.50 | 12,345 | 2 |\n" in page


def test_an_unfinished_run_is_named_with_the_reason(page: str) -> None:
    assert "14 finished runs are counted." in page
    assert "| `begun` | unfinished: no metrics.json; epochs done: 0 |\n" in page


def test_a_run_that_is_half_read_is_counted_and_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "towns/none-1", tagger_config(1), [0.5])
    (folder / "best.th").write_bytes(b"spoiled")
    write_report([tmp_path], tmp_path / "page")
    page = (tmp_path / "page/report.md").read_text(encoding="utf-8")
    assert "1 finished run is counted." in page
    assert "`towns/none-1`: 'best.th' holds no readable weights" in page


def test_a_page_links_to_the_pictures_beside_it_and_to_no_other(report: Report, page: str) -> None:
    pictures = [path.name for path in report.files if path.suffix == ".png"]
    assert pictures == [
        "confusion_opinions_accuracy.png",
        "layer_weights.png",
        "learning_curves_opinions_accuracy.png",
        "learning_curves_towns_accuracy.png",
        "perplexity.png",
        "sample_efficiency.png",
        "scores.png",
    ]
    assert pictures == sorted(re.findall(r"\]\((.*?)\)", page))
    assert sorted(report.files) == sorted(report.files[0].parent.iterdir())
    assert sum(path.stat().st_size for path in report.files) < 1_000_000


def test_every_picture_shows_something_and_nothing_is_cut_off(report: Report) -> None:
    for path in report.files:
        if path.suffix == ".png":
            picture = Image.open(path).convert("L")
            colours = picture.getcolors()
            assert colours is not None and len(colours) > 8, path
            edges = [picture.crop(box).getextrema() for box in _edges(*picture.size)]
            assert {low for low, _ in edges} == {255}, path


def _edges(width: int, height: int) -> list[tuple[int, int, int, int]]:
    """The outermost pixels of a picture."""
    return [(0, 0, width, 1), (0, height - 1, width, height), (0, 0, 1, height), (width - 1, 0, width, height)]


def test_the_same_runs_make_the_same_bytes(
    report: Report, grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    again = write_report([grid], tmp_path / "again")
    assert [path.read_bytes() for path in again.files] == [path.read_bytes() for path in report.files]


def test_without_a_count_of_tokens_perplexity_goes_by_epochs(tmp_path: Path) -> None:
    write_pretraining(tmp_path / "runs/sampled", [(float("inf"), 800.0), (90.0, 81.0)])
    files = [path.name for path in write_report([tmp_path / "runs"], tmp_path / "page").files]
    assert files == ["perplexity.png", "report.html", "report.md"]


def test_a_page_that_cannot_be_made_leaves_what_is_there(grid: Path, report: Report, tmp_path: Path) -> None:
    folder = report.files[0].parent
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ConfigurationError, match="no finished run"):
        write_report([grid / "begun"], folder)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigurationError, match="file' cannot be written"):
        write_report([grid / "opinions"], tmp_path / "file")
