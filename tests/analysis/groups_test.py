import math
from pathlib import Path
from statistics import mean, stdev

from elmo_plugin.analysis.groups import Experiment, side_by_side, summary
from elmo_plugin.analysis.runs import find_runs
from tests.report_runs import tagger_config, write_run

SCORES = {1: [0.5, 0.6], 2: [0.7], 3: [0.3, 0.4, 0.2]}


def test_a_summary_is_the_mean_and_the_sample_deviation() -> None:
    assert summary([1.0, 2.0, 4.5]) == (mean([1, 2, 4.5]), stdev([1, 2, 4.5]), 3)
    one = summary([3.0])
    assert (one.text(1), math.isnan(one.deviation)) == ("3.0", True)


def test_seeds_are_grouped_and_fractions_stay_apart(tmp_path: Path) -> None:
    for seed, scores in SCORES.items():
        write_run(tmp_path / f"towns/none-{seed}", tagger_config(seed), scores)
    part = {"task": "towns", "variant": "none", "seed": 1, "fraction": 0.1}
    write_run(tmp_path / "towns/little", tagger_config(1), [0.1], **part)
    write_run(tmp_path / "towns/a-1", tagger_config(1, {}), [0.9])
    experiment = Experiment(find_runs([tmp_path])[0])
    (task,) = experiment.tasks
    none, a = experiment.full(task)
    assert (none.variant, a.variant, experiment.baselines) == ("none", "a", {"none"})
    assert none.summary()[:2] == (mean([60, 70, 40]), stdev([60, 70, 40]))
    assert {epoch: round(value) for epoch, value in none.mean_curve("validation").items()} == {1: 50, 2: 50, 3: 20}
    assert [group.fraction for group in experiment.by_fraction(task)["none"]] == [0.1, 1.0]
    assert list(experiment.by_fraction(task)) == ["none"]


def test_a_seed_is_a_number_a_string_or_none(tmp_path: Path) -> None:
    for name, seed in (("none-8", 8), ("none-10", "10"), ("unseeded", None)):
        write_run(tmp_path / "towns" / name, {**tagger_config(1), "pytorch_seed": seed}, [0.5], variant="none")
    (group,) = Experiment(find_runs([tmp_path])[0]).groups
    assert [run.seed for run in group.runs] == [None, 8, 10]


def test_a_variant_with_elmo_in_one_task_is_not_a_baseline(tmp_path: Path) -> None:
    for task, elmo in (("a", {}), ("b", None)):
        write_run(tmp_path / task / "x-1", tagger_config(1, elmo), [0.5])
    assert Experiment(find_runs([tmp_path])[0]).baselines == set()


def test_ties_have_no_best_variant_and_tasks_with_the_same_variants_share_a_table(tmp_path: Path) -> None:
    scores = {"cities": {"a": 0.5, "b": 0.6}, "rivers": {"a": 0.5, "b": 0.500001}, "towns": {"a": 0.5}}
    for task, variants in scores.items():
        for variant, score in variants.items():
            write_run(tmp_path / f"{task}/{variant}-1", tagger_config(1), [score])
    experiment = Experiment(find_runs([tmp_path])[0])
    assert [experiment.best(task) for task in experiment.tasks] == ["b", None, None]
    tables = side_by_side(experiment.groups)
    assert [([task.name for task in tasks], variants) for tasks, variants in tables] == [
        (["cities", "rivers"], ["a", "b"]),
        (["towns"], ["a"]),
    ]
