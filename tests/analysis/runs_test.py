import math
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.runs import Task, find_runs
from tests.report_runs import tagger_config, write_json, write_pretraining, write_run


def test_task_variant_and_seed_come_from_the_folders_name(tmp_path: Path) -> None:
    write_run(tmp_path / "runs/towns/no-elmo-7", tagger_config(7), [0.5, 0.75, 0.7])
    write_run(tmp_path / "runs/towns/no-elmo-10", {**tagger_config(1), "pytorch_seed": "10"}, [0.5])
    (tens, run), uncounted = find_runs([tmp_path])
    assert (run.name, run.task) == ("runs/towns/no-elmo-7", Task("towns", "accuracy"))
    assert (run.variant, run.seed) == ("no-elmo", 7) and (tens.variant, tens.seed) == ("no-elmo", 10)
    assert (run.fraction, run.score, run.has_elmo, uncounted) == (1.0, 75.0, False, [])
    assert (list(run.epochs), run.best_epoch) == ([1, 2, 3], 2)


def test_without_a_seed_in_the_name_the_folder_names_the_variant_and_the_data_the_task(tmp_path: Path) -> None:
    config = tagger_config(7, {"bilm": {}}, "-loss")
    write_run(tmp_path / "demo-3", config, [2.5], "loss")
    (run,), _ = find_runs([tmp_path / "demo-3"])
    assert (run.task, run.variant, run.seed, run.score) == (Task("towns", "loss", False), "demo-3", 7, 2.5)
    assert run.has_elmo


def test_the_user_says_which_part_of_the_path_is_the_task_the_variant_and_the_seed(tmp_path: Path) -> None:
    for name in ("elmo.2/ner_seed1", "elmo.2/ner_seed22", "other"):
        write_run(tmp_path / name, tagger_config(7), [0.5])
    runs, uncounted = find_runs([tmp_path], "VARIANT/TASK_seedSEED")
    places = [(run.task.name, run.variant, run.seed) for run in runs]
    assert places == [("ner", "elmo.2", 1), ("ner", "elmo.2", 22)]
    assert uncounted == [("other", "the path does not have the form of 'names'")]
    for wrong in ("VARIANT-SEED", "TASK/TASK/VARIANT"):
        with pytest.raises(ConfigurationError, match=f"'names': expected TASK and VARIANT once each.*{wrong}"):
            find_runs([tmp_path], wrong)


def test_grid_json_overrides_names(tmp_path: Path) -> None:
    place = {"task": "ner", "variant": "both", "seed": 2, "fraction": 0.1, "commit": "1a2b3c4"}
    write_run(tmp_path / "x-1", tagger_config(1, metric="+loss"), [0.5], "f1-measure-overall", **place)
    (run,), _ = find_runs([tmp_path])
    assert (run.task, run.variant, run.seed, run.fraction) == (Task("ner", "f1-measure-overall"), "both", 2, 0.1)
    assert (run.task.title, run.commit) == ("ner: span F1, %", "1a2b3c4")


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("metrics.json", None, "unfinished: no metrics.json; epochs done: 2"),
        ("metrics.json", '{"best_validation_accuracy": NaN}', "holds no number 'best_validation_accuracy'"),
        ("config.json", "[1]", "config.json: expected a JSON object, got a list"),
        ("grid.json", '{"fraction": 30}', "'fraction': expected more than 0 and at most 1, got 30"),
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
    runs, ((name, reason),) = find_runs([tmp_path])
    assert [run.name for run in runs] == ["towns/none-1"]
    assert name == "towns/none-2"
    assert said in reason


def test_a_second_run_with_the_same_seed_is_not_counted(tmp_path: Path) -> None:
    for folder in ("a/towns/none-1", "b/towns/none-1"):
        write_run(tmp_path / folder, tagger_config(1), [0.5])
    runs, uncounted = find_runs([tmp_path / "a", tmp_path / "b"])
    assert [run.name for run in runs] == ["a/towns/none-1"]
    assert len(find_runs([tmp_path / "a", tmp_path / "a/towns/none-1"])[0]) == 1  # one run, named twice
    assert uncounted == [("b/towns/none-1", "'a/towns/none-1' has the same task, variant, seed and fraction")]


def test_folders_without_a_finished_run_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"expected a finished run, got no run$"):
        find_runs([tmp_path])
    write_json(tmp_path / "begun/config.json", tagger_config(1))
    with pytest.raises(ConfigurationError, match=r"begun: unfinished: no metrics\.json; epochs done: 0"):
        find_runs([tmp_path])
    with pytest.raises(ConfigurationError, match="nowhere"):
        find_runs([Path("nowhere")])


def test_a_run_of_the_model_bilm_is_pretraining(tmp_path: Path) -> None:
    write_pretraining(tmp_path / "bilm", [(90.0, 80.0)])
    (run,), _ = find_runs([tmp_path])
    assert run.is_pretraining
    assert run.score == pytest.approx(math.sqrt(7200))
    assert not run.task.higher_is_better
