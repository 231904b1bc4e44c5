import math
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.runs import find_runs
from tests.report_runs import tagger_config, write_json, write_pretraining, write_run


def test_task_variant_and_seed_come_from_the_folders_name(tmp_path: Path) -> None:
    write_run(tmp_path / "runs/towns/no-elmo-7", tagger_config(7), [0.5, 0.75, 0.7])
    (run,), uncounted = find_runs([tmp_path])
    assert (run.task, run.variant, run.seed, run.share) == ("towns: accuracy, %", "no-elmo", "7", 100)
    assert (run.score, run.best_epoch, run.validation, uncounted) == (75, 2, [50, 75, 70], [])


def test_without_a_seed_in_the_name_the_folder_names_the_variant_and_the_data_the_task(tmp_path: Path) -> None:
    write_run(tmp_path / "demo-3", tagger_config(7, metric="-loss"), [2.5], "loss")
    (run,), _ = find_runs([tmp_path / "demo-3"])
    assert (run.task, run.variant, run.seed, run.score) == ("towns: loss", "demo-3", "7", 2.5)


def test_data_without_a_folder_names_the_task_by_its_file(tmp_path: Path) -> None:
    config = {**tagger_config(7), "train_data_path": "towns.conll"}
    write_run(tmp_path / "runs/demo", config, [0.5])
    (run,), _ = find_runs([tmp_path])
    assert (run.task, run.axis) == ("towns: accuracy, %", "Accuracy on towns (%)")


def test_the_user_says_which_part_of_the_path_is_the_task_the_variant_and_the_seed(tmp_path: Path) -> None:
    for name in ("elmo.2/ner_seed1", "elmo.2/ner_seed22", "other"):
        write_run(tmp_path / name, tagger_config(7), [0.5])
    runs, uncounted = find_runs([tmp_path], "VARIANT/TASK_seedSEED")
    places = [(run.task, run.variant, run.seed) for run in runs]
    assert places == [("ner: accuracy, %", "elmo.2", "1"), ("ner: accuracy, %", "elmo.2", "22")]
    assert uncounted == [("other", "the path does not have the form of 'names'")]
    with pytest.raises(ConfigurationError, match=r"'names': expected TASK and VARIANT once each.*VARIANT-SEED"):
        find_runs([tmp_path], "VARIANT-SEED")


def test_grid_json_overrides_names(tmp_path: Path) -> None:
    place = {"task": "ner", "variant": "both", "seed": 2, "fraction": 0.1, "commit": "1a2b3c4"}
    write_run(tmp_path / "x-1", tagger_config(1, metric="+loss"), [0.5], "f1-measure-overall", **place)
    (run,), _ = find_runs([tmp_path])
    assert (run.task, run.variant, run.seed, run.share) == ("ner: span F1, %", "both", "2", 10)
    assert run.commit == "1a2b3c4"


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("metrics.json", None, "unfinished: no metrics.json; epochs done: 2"),
        ("metrics.json", '{"best_validation_accuracy": NaN}', "holds no number 'best_validation_accuracy'"),
        ("config.json", "[1]", "expected an object, got a list"),
        ("grid.json", '{"task": "towns", "variant": "none", "seed": 1}', "'none-1' has the same task"),
        ("best.th", "spoiled", "best.th"),
    ],
)
def test_a_broken_run_is_not_counted_and_listed_with_the_reason(
    tmp_path: Path, file: str, content: str | None, said: str
) -> None:
    write_run(tmp_path / "towns/none-1", tagger_config(1), [0.5])
    broken = write_run(tmp_path / "towns/none-2", tagger_config(2), [0.5, 0.6])
    (broken / file).unlink(missing_ok=True)
    if content is not None:
        (broken / file).write_text(content)
    (counted,), ((name, reason),) = find_runs([tmp_path])
    assert (counted.name, name) == ("none-1", "none-2") and said in reason


def test_folders_without_a_finished_run_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"expected a finished run, got no run$"):
        find_runs([tmp_path])
    write_json(tmp_path / "begun/config.json", tagger_config(1))
    with pytest.raises(ConfigurationError, match=r"begun: unfinished: no metrics\.json; epochs done: 0"):
        find_runs([tmp_path])


def test_a_pretraining_run_is_scored_by_its_perplexity(tmp_path: Path) -> None:
    write_pretraining(tmp_path / "bilm", [(90.0, 80.0)])
    (run,), _ = find_runs([tmp_path])
    assert run.task == "news: perplexity" and run.score == pytest.approx(math.sqrt(7200))
