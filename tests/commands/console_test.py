"""What the command line prints: warnings, results, one line for an error, and its last lines."""

import json
import logging
import os
import re
import subprocess
import sys
import tarfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from allennlp.commands import ArgumentParserWithDefaults, main
from allennlp.common import Params
from allennlp.common import logging as allennlp_logging
from allennlp.common.checks import ConfigurationError
from allennlp.training import GradientDescentTrainer, gradient_descent_trainer

from elmo_plugin import commands
from elmo_plugin.commands import console
from elmo_plugin.commands.command_line import other_plugins
from tests.commands.alone import python_m, run
from tests.elmo.small_elmo import RANDOM
from tests.full_disk import disk_of
from tests.task_oracles import TOWNS, Config, D, allennlp, experiment, lstm, tagger, tags_reader, train, word_embedder


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore hooks and handlers afterwards."""
    monkeypatch.setattr(ArgumentParserWithDefaults, "error", ArgumentParserWithDefaults.error)
    monkeypatch.setattr(allennlp_logging, "prepare_global_logging", allennlp_logging.prepare_global_logging)
    monkeypatch.setattr(warnings, "filters", [*warnings.filters])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    for name in ("ALLENNLP_LOG_LEVEL", "ALLENNLP_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(logging.getLogger("allennlp.common.params"), "disabled", False)  # `evaluate` leaves it disabled
    root, tqdm = logging.getLogger(), logging.getLogger("tqdm")
    before = root.level, root.handlers[:], tqdm.handlers[:]
    yield
    root.level, root.handlers, tqdm.handlers = before


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize("shown", [False, True])
def test_messages_go_to_out_log_and_are_printed_only_on_request(
    shown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if shown:
        monkeypatch.setenv("ALLENNLP_LOG_LEVEL", "INFO")
    console.adapt_console()
    allennlp_logging.prepare_global_logging(tmp_path)
    logging.getLogger("allennlp.common.params").info("a key")
    logging.getLogger("spacy").warning("a problem")
    logging.getLogger("allennlp").warning("vocabulary serialization directory run/vocabulary is not empty")
    logging.getLogger("allennlp.commands.test_install").info("a result")
    logged, printed = (tmp_path / "out.log").read_text(encoding="utf-8"), capsys.readouterr()
    assert "a key" in logged and "a problem" in logged
    assert ("a key" in printed.out) == ("not empty" in printed.out + printed.err) == shown
    assert all(said in (printed.out if shown else printed.err) for said in ("a result", "a problem"))


ERRORS = [
    (ConfigurationError("(run) already exists and is not empty. Specify --recover"), "--force"),
    (ConfigurationError("Experiment specified a GPU but none is available"), '{"trainer.cuda_device": -1}'),
    (ConfigurationError("metric_name must start with + or -"), "'+accuracy'"),
    (FileNotFoundError("file trian.conll not found"), "working directory"),
    (tarfile.ReadError("not a gzip file"), "model.tar.gz"),
    (RuntimeError("RUNTIME ERROR: undefined external variable: UD_EWT\n\tdata.libsonnet"), "export UD_EWT="),
    (RuntimeError('STATIC ERROR: 1:9: expected token OPERATOR but got "."'), "-o '{"),
    (ValueError("Using AMP requires a cuda device"), "'use_amp'"),
    (OSError("/explosion/spacy-models/master/compatibility.json"), "--predictor elmo_tagger"),
    (UnicodeDecodeError("utf-8", b"caf\xe9", 3, 4, "unexpected end of data"), "iconv"),
    (UnicodeDecodeError("utf-8", b"\xff\xfeA\0", 0, 1, "invalid start byte"), "iconv -f UTF-16"),
    (ModuleNotFoundError("No module named 'elmo_plugn'", name="elmo_plugn"), "elmo_plugn"),
]


@pytest.mark.usefixtures("command")
def test_a_users_mistake_is_one_line_and_other_errors_keep_their_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["allennlp", "train", "--include-package", "elmo_plugn"])
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    console.adapt_console()
    allennlp_logging.prepare_global_logging(tmp_path)
    for error, fact in ERRORS:
        sys.excepthook(type(error), error, None)
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("allennlp: ") and fact in line
    assert (tmp_path / "out.log").read_text(encoding="utf-8").count("Uncaught exception") == len(ERRORS)
    for error in (ValueError("shape"), ModuleNotFoundError("No module named 'torch'", name="torch")):
        sys.excepthook(type(error), error, None)
        assert not capsys.readouterr().err.startswith("allennlp: ")


@pytest.mark.usefixtures("command")
def test_a_value_of_the_wrong_type_is_named_with_its_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    console.adapt_console()
    config = experiment(tagger({"bilm": RANDOM}), tags_reader(), TOWNS, optimizer={"type": "adam", "lr": "0.005"})
    with pytest.raises(ConfigurationError) as caught:
        train(config, tmp_path / "run")
    sys.excepthook(ConfigurationError, caught.value, caught.tb)
    assert "'trainer.optimizer.lr': expected a number, got \"0.005\"" in capsys.readouterr().err


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"optimizer": {"type": "adam", "lr": -1.0}}, "'trainer.optimizer': Invalid learning rate: -1.0"),
        ({"encoder": lstm(D, -6)}, "'model.encoder': hidden_size must be greater than zero"),
        ({"text_field_embedder": word_embedder(-5)}, "'model.text_field_embedder.token_embedders.tokens': "),
    ],
    ids=lambda case: next(iter(case)) if isinstance(case, dict) else "",
)
def test_a_value_that_a_constructor_refuses_is_named_with_its_block(
    keys: Config, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    console.adapt_console()
    trainer = {key: value for key, value in keys.items() if key == "optimizer"}
    model = tagger({"bilm": RANDOM}, **{key: value for key, value in keys.items() if key not in trainer})
    with pytest.raises((ValueError, RuntimeError)) as caught:
        train(experiment(model, tags_reader(), TOWNS, **trainer), tmp_path / "run")
    sys.excepthook(type(caught.value), caught.value, caught.tb)
    printed = capsys.readouterr().err
    assert message in printed and "Traceback" not in printed


@pytest.mark.usefixtures("command")
def test_the_retired_command_names_its_successor(capsys: pytest.CaptureFixture[str]) -> None:
    console.adapt_console()
    with pytest.raises(SystemExit) as ended:
        allennlp("elmo", "sentences.txt", "vectors.hdf5", "--all")
    assert ended.value.code == 2 and "elmo-plugin embed-corpus INPUT OUTPUT" in capsys.readouterr().err


def test_debugging_shows_the_traceback_of_our_own_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="nowhere"):
        run("embed-corpus", "nowhere", "vectors.hdf5")
    monkeypatch.setenv("ALLENNLP_DEBUG", "1")
    with pytest.raises(ConfigurationError, match="nowhere"):
        run("embed-corpus", "nowhere", "vectors.hdf5")


def test_other_plugins_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    Path(".allennlp_plugins").write_text("elmo_plugin\nallennlp_models\n")
    assert other_plugins(["train", "--include-package", "elmo_plugin.models"]) == set()
    Path(".allennlp_plugins").write_text("elmo_plugin\nother\n")
    assert other_plugins(["train", "--include-package", "mine.models"]) == {"other", "mine.models"}
    Path(".allennlp_plugins").unlink()
    for argument in ("--include-package=theirs", "--include-pack=theirs", "--inc=theirs"):
        assert other_plugins(["train", argument, "-s", "run"]) == {"theirs"}, argument
    assert other_plugins(["train", "--inc", "theirs", "--include-package"]) == {"theirs"}


def test_an_index_beyond_an_embedding_keeps_its_traceback() -> None:
    with pytest.raises(IndexError, match="out of range") as caught:
        torch.nn.Embedding(2, 2)(torch.tensor([5]))
    assert not console.is_users_mistake(caught.value) and console.with_hint(caught.value) == str(caught.value)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config that trains a small tagger within a second."""
    model = tagger({"bilm": RANDOM}, elmo_at=["output"], encoder=lstm(5), text_field_embedder=word_embedder())
    Params(experiment(model, tags_reader(), TOWNS)).to_file(str(tmp_path / "config.json"))
    return tmp_path / "config.json"


@pytest.mark.usefixtures("command")
def test_train_ends_with_its_best_metrics_and_what_to_do_next(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    console.adapt_console()
    monkeypatch.setattr(commands.train, "is_command", lambda: True)
    allennlp("train", config, "-s", tmp_path / "run")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {name: value for name, value in metrics.items() if name.startswith("best_")}
    written, following = printed.err.splitlines()[-2:]
    assert written.startswith(f"{tmp_path}/run/model.tar.gz: ")
    assert f"elmo-plugin predict {tmp_path}/run/model.tar.gz" in following
    with pytest.raises(ConfigurationError, match="expected a config, got a folder"):
        allennlp("train", tmp_path / "run", "-s", tmp_path / "again")


@pytest.mark.usefixtures("command")
def test_the_bars_of_training_say_the_epoch_and_the_part(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("_train_epoch", "_validation_loss"):
        monkeypatch.setattr(GradientDescentTrainer, name, getattr(GradientDescentTrainer, name))
    monkeypatch.setattr(gradient_descent_trainer, "Tqdm", gradient_descent_trainer.Tqdm)
    console.adapt_console()
    allennlp("train", config, "-s", tmp_path / "run", "-o", '{"trainer.num_epochs": 2}')
    bars = [line for line in re.split(r"[\r\n]+", capsys.readouterr().err) if "100%" in line]
    for number in (1, 2):
        for part in ("training", "validation"):
            assert any(bar.startswith(f"epoch {number}/2 {part}: ") and "loss: " in bar for bar in bars)


def test_a_full_disk_is_one_error_that_names_the_run(config: Path, tmp_path: Path) -> None:
    with (
        disk_of(20_000),
        pytest.raises(ConfigurationError, match=f"'{tmp_path}/run': the disk is full.*--recover") as e,
    ):
        allennlp("train", config, "-s", tmp_path / "run")
    assert len(str(e.value).splitlines()) == 1 and list((tmp_path / "run").glob("model_state_*"))


@pytest.mark.parametrize("command", [("train", "-s", "run"), ("check-data",)])
@pytest.mark.parametrize("config", ["[]", '"text"'])
def test_a_config_that_is_no_object_is_one_line(
    command: tuple[str, ...], config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.jsonnet").write_text(config, encoding="utf-8")
    name, *options = command
    with pytest.raises((ConfigurationError, SystemExit), match="the config: expected an object"):
        allennlp(name, "config.jsonnet", *options)
    assert not Path("run").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("command")
@pytest.mark.parametrize("typo", [{"model.droput": 0.1}, {"train_data_path": "trian.conll"}, {"trainer.epochs": 1}])
def test_a_mistake_leaves_no_folder_that_the_corrected_command_would_be_refused(
    typo: dict[str, object], config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands.train, "is_command", lambda: True)
    monkeypatch.setattr(commands.train, "program", lambda: "elmo-plugin")
    with pytest.raises((ConfigurationError, FileNotFoundError), match=r"droput|trian|num_epochs"):
        allennlp("train", config, "-s", tmp_path / "run", "-o", json.dumps(typo))
    allennlp("train", config, "-s", tmp_path / "run")


TRAIN = ["train", "config.json", "-s", "run"]


def check_training(folder: Path, out: str, err: str) -> None:
    """Compare what a training printed with what it should."""
    assert json.loads(out).keys() >= {"best_epoch", "best_validation_loss"}
    assert "| elmo-plugin predict run" in err.splitlines()[-1]
    messages = [line for line in err.splitlines() if line.startswith("20") and " - INFO - " in line]
    assert not [line for line in messages if "allennlp_models" not in line]  # which is imported before this package
    assert (folder / "run" / "out.log").read_text().count(" - INFO - ") > 10


@pytest.mark.slow
@pytest.mark.usefixtures("config")
def test_allennlp_trains_a_config_in_a_folder_without_a_list_of_plugins(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "allennlp", *TRAIN, "--include-package", "elmo_plugin"]
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    check_training(tmp_path, result.stdout, result.stderr)


@pytest.mark.slow
@pytest.mark.usefixtures("config")
def test_two_processes_train_a_config_in_a_folder_without_a_list_of_plugins(tmp_path: Path) -> None:
    distributed = '{"distributed": {"cuda_devices": [-1, -1]}}'
    ended = python_m("elmo_plugin", *TRAIN, "-o", distributed, folder=tmp_path)
    assert ended.exit_code == 0, ended.err
    check_training(tmp_path, ended.out, ended.err)


def test_usage_names_the_program_that_was_called(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("allennlp.commands.import_plugins", lambda: None)
    for path, name in (
        ("/bin/elmo-plugin", "elmo-plugin"),
        ("elmo_plugin/__main__.py", "python -m elmo_plugin"),
        ("/allennlp", "allennlp"),
    ):
        monkeypatch.setattr(sys, "argv", [path, "embed-corpus"])
        with pytest.raises(SystemExit):
            main(prog=console.program())
        assert f"usage: {name} embed-corpus INPUT" in capsys.readouterr().err
        assert console.is_command() == (name != "allennlp")  # its script imports `allennlp.__main__`


@pytest.mark.parametrize("command", ["train", "embed-corpus", "evaluate"])
def test_an_unknown_option_prints_the_usage_of_its_command(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("allennlp.commands.import_plugins", lambda: None)
    given = {"train": ["c.jsonnet", "-s", "run"], "embed-corpus": ["text", "out"], "evaluate": ["model", "data"]}[
        command
    ]
    monkeypatch.setattr(sys, "argv", ["/bin/elmo-plugin", command, *given, "--epochs", "3"])
    console.adapt_console()
    with pytest.raises(SystemExit):
        main(prog="elmo-plugin")
    printed = capsys.readouterr().err
    assert f"usage: elmo-plugin {command} " in printed and "unrecognized arguments: --epochs 3" in printed
