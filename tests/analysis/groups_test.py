import math
from pathlib import Path
from statistics import mean, stdev

from elmo_plugin.analysis.groups import Experiment, summary
from elmo_plugin.analysis.runs import find_runs
from tests.report_runs import tagger_config, write_run

SCORES = {1: [0.5, 0.6], 2: [0.7], 3: [0.3, 0.4, 0.2]}


def test_a_summary_is_the_mean_and_the_sample_deviation() -> None:
    assert summary([1.0, 2.0, 4.5]) == (mean([1, 2, 4.5]), stdev([1, 2, 4.5]), 3)
    assert summary([1.0, 2.0]).text() == "1.50 ± 0.71"
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
    assert [group.fraction for group in experiment.by_fraction(task)["none"]] == [0.1, 1.0]
    assert list(experiment.by_fraction(task)) == ["none"]


def test_a_mean_curve_is_over_the_runs_that_came_as_far(tmp_path: Path) -> None:
    for seed, scores in SCORES.items():
        write_run(tmp_path / f"towns/none-{seed}", tagger_config(seed), scores)
    (group,) = Experiment(find_runs([tmp_path])[0]).groups
    assert {epoch: round(value) for epoch, value in group.mean_curve("validation").items()} == {1: 50, 2: 50, 3: 20}
