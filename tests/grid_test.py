"""The driver of grids, on the demos and for one epoch. Only tests of process handling start processes."""

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
STUB = """
import json, pathlib, runpy, sys
runs, task, variant, seed, fraction = sys.argv[1:]
if task == "ud_pos":
    sys.path.insert(0, ".")  # the driver starts programs in the root of the checkout
    runpy.run_module("experiments.run", run_name="__main__")
folder = pathlib.Path(runs, task, f"{variant}-{seed}")
folder.mkdir()
(folder / "metrics.json").write_text(json.dumps({"best_validation_accuracy": 0.4}))
(folder / "grid.json").write_text("{}")
"""
"""A program that trains nothing, but that starts the real one for `ud_pos`."""


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


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train runs in this process, since a new one takes seconds to start."""

    def train(run: Run) -> tuple[Run, float]:
        grid_run.train(run)
        return run, 0.0

    monkeypatch.setattr(grid, "train", train)


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


def files(runs: Path) -> dict[str, Any]:
    """Return the names of all files in a grid's folder but the caches, with the content of scores and weights."""
    paths = [path for path in runs.rglob("*") if path.is_file() and "sentence_caches" not in path.parts]
    kept = ("grid.json", "layer_weights.json", "confusion.json")
    values: dict[str, Any] = {str(path.relative_to(runs)): None for path in paths}
    values |= {str(path.relative_to(runs)): json.loads(path.read_text()) for path in paths if path.name in kept}
    return values


@pytest.mark.slow
def test_an_interrupted_grid_is_resumed_to_the_same_folders_and_tables(
    in_process: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = "--tasks demo_reviews --variants your_bilm without_elmo --seeds 1 2"
    assert command(tmp_path / "whole", arguments) == 0
    whole = capsys.readouterr().out.partition("### Tasks")
    trained: list[str] = []

    def cut_at_the_third(params: Params, folder: Path, **keys: Any) -> Any:
        trained.append(folder.name)
        model = train_model(params, folder, **keys)
        if len(trained) == 3:
            raise KeyboardInterrupt
        return model

    train_model = grid_run.train_model
    monkeypatch.setattr(grid_run, "train_model", cut_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        command(tmp_path / "cut", arguments)
    assert (tmp_path / "cut/demo_reviews/your_bilm-2/model.tar.gz").exists()
    capsys.readouterr()
    command(tmp_path / "cut", f"--table {arguments}")
    assert "(1 of 2 seeds)" in capsys.readouterr().out

    assert command(tmp_path / "cut", arguments) == 0
    assert capsys.readouterr().out.partition("### Tasks")[1:] == whole[1:]
    assert sorted(trained) == ["without_elmo-1", "without_elmo-2", "your_bilm-1", "your_bilm-2", "your_bilm-2"]
    assert files(tmp_path / "cut") == files(tmp_path / "whole")


def test_a_run_writes_what_reports_read_and_no_weights(in_process: None, tmp_path: Path) -> None:
    command(tmp_path, "--tasks demo_reviews demo --variants your_bilm --seeds 3")
    folder = tmp_path / "demo_reviews/your_bilm-3"
    assert json.loads((folder / "grid.json").read_text()) == {
        "task": "demo_reviews",
        "variant": "your_bilm",
        "seed": 3,
        "fraction": 1.0,
        "metric": "accuracy",
    }
    metrics = json.loads((folder / "metrics.json").read_text())
    confusion = json.loads((folder / "confusion.json").read_text())
    assert set(confusion["labels"]) == {"glad", "sour"}
    assert [sum(row) for row in confusion["counts"]] == [5, 5]
    assert (confusion["counts"][0][0] + confusion["counts"][1][1]) / 10 == metrics["best_validation_accuracy"]
    assert json.loads((folder / "layer_weights.json").read_text()).keys() == {"input", "output"}
    assert json.loads((folder / "config.json").read_text())["numpy_seed"] == 3
    assert (folder / "metrics_epoch_0.json").exists()
    assert not (tmp_path / "demo/your_bilm-3/confusion.json").exists()
    assert not [*tmp_path.rglob("*.th"), *tmp_path.rglob("*.tar.gz")]


def test_a_run_is_scored_on_a_second_development_set_if_there_is_one(
    in_process: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (ROOT / "training_configs/tag/demo/dev.conll").read_text(encoding="utf-8")
    (tmp_path / "demo.dev2").write_text(source.split("\n\n")[0] + "\n", encoding="utf-8")
    command(tmp_path, "--tasks demo --variants without_elmo --seeds 3")
    metrics = json.loads((tmp_path / "demo/without_elmo-3/metrics.json").read_text())
    first, second = (100 * metrics[f"{part}_f1-measure-overall"] for part in ("best_validation", "test"))
    printed = capsys.readouterr().out
    assert f"| `demo` | {first:.2f} |\n| `demo`, second dev | {second:.2f} |" in printed
    assert metrics["best_validation_loss"] != metrics["test_loss"]


def test_a_second_development_set_that_came_later_has_no_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Run(tmp_path, "demo", "without_elmo", 3).path()
    folder.mkdir(parents=True)
    (folder / "grid.json").write_text("{}")
    (folder / "metrics.json").write_text('{"best_validation_f1-measure-overall": 0.5}')
    (tmp_path / "demo.dev2").touch()
    command(tmp_path, "--table --tasks demo --variants without_elmo --seeds 3")
    assert "| `demo` | 50.00 |\n| `demo`, second dev |  |" in capsys.readouterr().out


def test_a_fraction_of_the_data_is_trained_on_for_as_many_steps(in_process: None, tmp_path: Path) -> None:
    run = Run(tmp_path, "demo", "without_elmo", 1, 0.1)
    grid_run.train(run)
    assert run.score() is not None
    config = json.loads((tmp_path / "demo/without_elmo-0.1-1/config.json").read_text())
    assert config["train_data_path"] == str(tmp_path / "demo/without_elmo-0.1-1.train")
    assert config["data_loader"]["batches_per_epoch"] == 3  # 20 sentences in batches of 8
    assert config["validation_data_path"] == "training_configs/tag/demo/dev.conll"


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
    for variant, seed, score in [("elmo", 1, 0.5), ("elmo", 2, 0.6), ("input_only", 1, 0.4)]:
        folder = Run(tmp_path, "demo_reviews", variant, seed).path()
        folder.mkdir(parents=True)
        (folder / "metrics.json").write_text(json.dumps({"best_validation_accuracy": score}))
        (folder / "grid.json").write_text("{}")
    command(tmp_path, "--table --tasks demo_reviews --experiments places --seeds 1 2")
    printed = capsys.readouterr().out
    assert "| `demo_reviews` | accuracy | 20 | 10 | 1, 3 |" in printed
    assert "|  | input | both (ELMo) | output |" in printed
    assert "| `demo_reviews` | 40.00 (1 of 2 seeds) | 55.00 ± 7.07 |  |" in printed


@pytest.mark.slow
def test_a_failed_run_is_named_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program.py"
    program.write_text(STUB)
    monkeypatch.setattr(grid, "PROGRAM", [sys.executable, str(program)])
    monkeypatch.delenv("UD_EWT", raising=False)
    assert command(tmp_path / "runs", "--tasks ud_pos sst5 --variants without_elmo --seeds 1 --jobs 2") == 1
    printed = capsys.readouterr()
    log = tmp_path / "runs/ud_pos/without_elmo-1.log"
    assert f"ud_pos, without_elmo-1: failed, see {log}" in printed.err + printed.out
    assert "UD_EWT" in log.read_text()
    assert Run(tmp_path / "runs", "sst5", "without_elmo", 1).score() == 40


def test_a_run_ends_with_the_driver_that_started_it() -> None:
    code = "import time; from experiments.parent_process import *; end_with_parent(); time.sleep(3600)"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=120) == 1


def test_lambda_is_the_weight_of_the_squares_of_both_mixes_weights() -> None:
    squares = 2 * sum(value**2 for value in torch.tensor([1.0, 2.0, 3.0]).log().tolist())
    assert built("lambda_0.001").get_regularization_penalty().item() == pytest.approx(0.001 * squares)
    assert built("lambda_1").get_regularization_penalty().item() == pytest.approx(squares)
    assert built("elmo").get_regularization_penalty() is None


def test_gamma_is_fixed_or_learns_fifty_times_as_fast() -> None:
    trainers = {
        variant: Params.from_file(CONFIGS / f"variants/{variant}.jsonnet", ext_vars={"TASK": "demo"})["trainer"]
        for variant in ("fixed_gamma", "fast_gamma")
    }
    parameters = [*built("elmo").named_parameters()]
    (fixed,) = trainers["fixed_gamma"]["no_grad"]
    assert sum(bool(re.search(fixed, name)) for name, _ in parameters) == 2  # one per mix
    fast, rest = Optimizer.from_params(trainers["fast_gamma"]["optimizer"], model_parameters=parameters).param_groups
    assert len(fast["params"]) == 2 and fast["lr"] == pytest.approx(50 * rest["lr"])


def test_every_condition_is_a_variant_every_variant_is_short_and_the_help_names_every_experiment() -> None:
    names = {path.stem for path in VARIANTS}
    assert {condition.variant for experiment in EXPERIMENTS.values() for condition in experiment.conditions} <= names
    assert {len(path.read_text().splitlines()) for path in VARIANTS} <= {1, 2, 3, 4}
    assert all(f"  {name} " in grid.DESCRIPTION for name in EXPERIMENTS)
