"""The driver of grids, on the demos and for one epoch. Only slow tests start processes."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.training.optimizers import Optimizer

from elmo_plugin.bilm import BiLM
from experiments import grid
from experiments import run as grid_run
from experiments.grid import EXPERIMENTS, main, parse
from experiments.run import CONFIGS, TASKS, Run, Task, write_sample
from tests.oracles import lively, options, write_files

ROOT = CONFIGS.parent
DEMOS = {
    "demo": Task("f1-measure-overall", train=20, dev=5, epochs=1),
    "demo_reviews": Task("accuracy", train=20, dev=10, epochs=1, separator="\n"),
}
VARIANTS = sorted((CONFIGS / "variants").glob("*.jsonnet"))


@pytest.fixture(autouse=True)
def demos(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add two tasks for tests, and a small biLM for the variant `your_bilm`."""
    bilm = lively(BiLM.random(options(), seed=3))
    folder = tmp_path_factory.mktemp("bilm")
    write_files(folder, bilm)
    monkeypatch.setenv("ELMO_BILM", str(folder))
    monkeypatch.setenv("ELMO_BILM_LAYERS", str(bilm.options.lstm.n_layers))
    monkeypatch.setenv("ELMO_BILM_PROJECTION", str(bilm.options.lstm.projection_dim))
    monkeypatch.chdir(ROOT)
    for name, task in DEMOS.items():
        monkeypatch.setitem(TASKS, name, task)


def command(runs: Path, line: str) -> int:
    """Run the driver with the folder of the runs and this command line."""
    return main([str(runs), *shlex.split(line)])


def built(variant: str) -> Any:
    """Build a variant's model for the demo, with the layer weights log 1, log 2, log 3."""
    params = Params.from_file(CONFIGS / f"variants/{variant}.jsonnet", ext_vars={"TASK": "demo"})
    vocabulary = Vocabulary()
    vocabulary.add_tokens_to_namespace(["O", "B-PER", "I-PER"], "labels")
    model = Model.from_params(params["model"], vocab=vocabulary, serialization_dir="")
    for name, parameter in model.named_parameters():
        if name.endswith("scalar_parameters"):
            parameter.data.copy_(torch.tensor([1.0, 2.0, 3.0]).log())
    return model


def write_score(run: Run, score: float) -> None:
    """Write what a run leaves that ended with this score."""
    run.path().mkdir(parents=True)
    (run.path() / "metrics.json").write_text(json.dumps({f"best_validation_{TASKS[run.task].metric}": score}))
    (run.path() / "grid.json").write_text("{}")


def test_a_failed_run_stops_no_other_and_only_unfinished_runs_are_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained: list[str] = []

    def train(run: Run) -> tuple[Run, float]:
        trained.append(run.path().name)
        if trained.count("elmo-1") != 1 or run.variant != "elmo":  # `elmo` fails at first
            write_score(run, 0.5)
        return run, 0.0

    monkeypatch.setattr(grid, "train", train)
    arguments = "--tasks demo --variants elmo without_elmo --seeds 1"
    assert command(tmp_path, arguments) == 1
    printed = capsys.readouterr()
    assert f"demo, elmo-1: failed, see {tmp_path / 'demo/elmo-1.log'}" in printed.err + printed.out
    assert "| `demo` |  | 50.00 |" in printed.out
    assert command(tmp_path, arguments) == 0
    assert trained == ["elmo-1", "without_elmo-1", "elmo-1"]


@pytest.mark.slow
def test_the_log_of_a_run_says_why_it_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UD_EWT", raising=False)
    assert command(tmp_path, "--tasks ud_pos --variants without_elmo --seeds 1") == 1
    assert "UD_EWT" in (tmp_path / "ud_pos/without_elmo-1.log").read_text()


def test_a_run_writes_what_reports_read_and_no_weights(tmp_path: Path) -> None:
    """It trains on a fraction of the data for as many steps, and is scored on a second development set, too."""
    source = (ROOT / "training_configs/classify/demo/dev.csv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "demo_reviews.dev2").write_text("\n".join(source[:3]), encoding="utf-8")
    run = Run(tmp_path, "demo_reviews", "your_bilm", 3, 0.1)
    grid_run.train(run)
    place = {"task": "demo_reviews", "variant": "your_bilm", "seed": 3, "fraction": 0.1, "metric": "accuracy"}
    assert json.loads((run.path() / "grid.json").read_text()) == place
    metrics = json.loads((run.path() / "metrics.json").read_text())
    confusion = json.loads((run.path() / "confusion.json").read_text())
    assert [sum(row) for row in confusion["counts"]] == [5, 5]
    assert (confusion["counts"][0][0] + confusion["counts"][1][1]) / 10 == metrics["best_validation_accuracy"]
    assert json.loads((run.path() / "layer_weights.json").read_text()).keys() == {"input", "output"}
    assert not [*tmp_path.rglob("*.th"), *tmp_path.rglob("*.tar.gz")]
    config = json.loads((run.path() / "config.json").read_text())
    assert config["numpy_seed"] == 3
    assert config["train_data_path"] == str(run.path(".train"))
    assert config["data_loader"]["batches_per_epoch"] == 3  # 20 texts in batches of 8
    assert (run.score(), run.score("test")) == (
        100 * metrics["best_validation_accuracy"],
        100 * metrics["test_accuracy"],
    )


def test_a_fraction_of_the_data_is_drawn_by_the_seed_from_the_first_sentences(tmp_path: Path) -> None:
    source = tmp_path / "train.conll"
    source.write_text("".join(f"\u2028{n} O\r\n. O\n \t\n\n" for n in range(30)), newline="", encoding="utf-8")

    def drawn(fraction: float, variant: str = "elmo", seed: int = 1) -> list[bytes]:
        run = Run(tmp_path, "demo", variant, seed, fraction)
        run.path().parent.mkdir(exist_ok=True)
        write_sample(run, source)
        return run.path(".train").read_bytes().removesuffix(b"\n\n").split(b"\n\n")

    assert set(drawn(0.999)) == {f"\u2028{n} O\r\n. O".encode() for n in range(20)}
    assert [len(drawn(fraction)) for fraction in (0.01, 0.1, 0.25)] == [1, 2, 5]
    assert set(drawn(0.1)) < set(drawn(0.25))
    assert drawn(0.25) == drawn(0.25, "without_elmo") != drawn(0.25, seed=2)


def test_runs_are_ordered_by_seed_and_shared_by_experiments(tmp_path: Path) -> None:
    arguments = "--tasks demo --seeds 1 2 --experiments layers places"
    runs = grid.grid(parse([str(tmp_path), *shlex.split(arguments)]))
    variants = ["without_elmo", "last_layer", "lambda_1", "lambda_0.001", "elmo", "input_only", "output_only"]
    assert [(run.seed, run.variant) for run in runs] == [(seed, variant) for seed in (1, 2) for variant in variants]
    everything = grid.grid(parse([str(tmp_path), "--tasks", "ud_pos", "sst5"]))
    assert len(everything) == len({run.path() for run in everything}) == 2 * 3 * (10 + 11 + 1 + 2 + 1)


def test_tables_have_mean_and_deviation_and_the_number_of_missing_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "demo_reviews.dev2").touch()  # came later, so no run has a score on it
    for variant, seed, score in [("elmo", 1, 0.5), ("elmo", 2, 0.6), ("input_only", 1, 0.4)]:
        write_score(Run(tmp_path, "demo_reviews", variant, seed), score)
    command(tmp_path, "--table --tasks demo_reviews --experiments places --seeds 1 2")
    printed = capsys.readouterr().out
    assert "| `demo_reviews` | accuracy | 20 | 10 | 1, 3 |" in printed
    assert "|  | input | both (ELMo) | output |" in printed
    assert "| `demo_reviews` | 40.00 (1 of 2 seeds) | 55.00 ± 7.07 |  |" in printed
    assert "| `demo_reviews`, second dev |  |  |  |" in printed


@pytest.mark.slow
def test_a_run_ends_with_the_driver_that_started_it() -> None:
    code = "import time; from experiments.run import *; end_with_parent(); time.sleep(3600)"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=120) == 1


def test_lambda_weighs_the_squares_of_the_mixes_weights_and_gamma_is_fixed_or_fast() -> None:
    model = built("lambda_0.001")
    squares = 2 * sum(value**2 for value in torch.tensor([1.0, 2.0, 3.0]).log().tolist())
    assert model.get_regularization_penalty().item() == pytest.approx(0.001 * squares)
    fixed, fast = (
        Params.from_file(CONFIGS / f"variants/{variant}.jsonnet", ext_vars={"TASK": "demo"})["trainer"]
        for variant in ("fixed_gamma", "fast_gamma")
    )
    parameters = [*model.named_parameters()]
    (pattern,) = fixed["no_grad"]
    assert sum(bool(re.search(pattern, name)) for name, _ in parameters) == 2  # one per mix
    group, rest = Optimizer.from_params(fast["optimizer"], model_parameters=parameters).param_groups
    assert len(group["params"]) == 2 and group["lr"] == pytest.approx(50 * rest["lr"])


def test_every_condition_is_a_variant_every_variant_is_short_and_the_help_names_every_experiment() -> None:
    names = {path.stem for path in VARIANTS}
    assert {condition.variant for experiment in EXPERIMENTS.values() for condition in experiment.conditions} <= names
    assert {len(path.read_text().splitlines()) for path in VARIANTS} <= {1, 2, 3, 4}
    assert all(f"  {name} " in grid.DESCRIPTION for name in EXPERIMENTS)
