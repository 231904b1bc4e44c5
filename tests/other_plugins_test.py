"""An import of this package leaves other plugins as they were: output, logging, signals, warnings and errors."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = """
import signal
from allennlp.common.checks import ConfigurationError
from allennlp.models import Model, SimpleTagger
from allennlp.training import TrainerCallback

@Model.register("theirs")
class Theirs(SimpleTagger):
    def forward(self, *args, **kwargs):
        print("handlers", *map(signal.getsignal, (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)))
        return super().forward(*args, **kwargs)

@TrainerCallback.register("fails")
class Fails(TrainerCallback):
    def on_end(self, *args, **kwargs):
        raise ConfigurationError("their error")  # ours would be one line
"""
SCRIPT = """
import logging, os, sys, warnings

import allennlp.__main__
from allennlp.commands import main
from allennlp.common import plugins
from allennlp.common.util import install_sigterm_handler
import theirs

plugins.DEFAULT_PLUGINS = ()
sys.argv = ["allennlp", "train", "../config.json", "-s", "run", "--include-package", "theirs"]

def state():
    return list(warnings.filters), sys.excepthook, list(logging.getLogger().handlers), logging.getLogger().level

def run(ours):
    os.mkdir(f"in-{ours}")
    os.chdir(f"in-{ours}")
    output = os.open("output", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    before = state()
    if ours:
        import elmo_plugin
    assert state() == before
    try:
        main()
    except BaseException as error:
        sys.excepthook(type(error), error, None)
    sys.stdout.flush()
    os._exit(0)

install_sigterm_handler()
for ours in (False, True):
    os.fork() or run(ours)
os.wait(), os.wait()
"""
CHANGING = re.compile(r"\S*\d+:\d+\S*|\S+/s\b|\?it/s|0x\w+|/tmp/\w+|/loky-[\w-]+")
"""What differs between two runs: times, rates, addresses, and temporary folders."""


def lines_of(output: Path) -> list[str]:
    """Return what was printed, without frames, progress bars, memory, and the late words of Python's tracker of
    semaphores."""
    lines = re.split(r"[\r\n]+", output.read_text().replace("in-True", "in-False"))
    shown = [line for line in lines if line and not re.search(r"^  |\||memory|resource_tracker", line)]
    return [" ".join(CHANGING.sub("…", line).split()) for line in shown]


@pytest.mark.slow
def test_a_run_of_another_plugin_is_the_same_with_and_without_this_package(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(PLUGIN)
    (tmp_path / "data.tsv").write_text("the###D cat###N sat###V\na###D dog###N ran###V\n")
    embedder = {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 4}}}
    config = {
        "dataset_reader": {"type": "sequence_tagging"},
        "train_data_path": str(tmp_path / "data.tsv"),
        "validation_data_path": str(tmp_path / "data.tsv"),
        "model": {
            "type": "theirs",
            "text_field_embedder": embedder,
            "encoder": {"type": "lstm", "input_size": 4, "hidden_size": 4},
        },
        "data_loader": {"batch_size": 2},
        "trainer": {"num_epochs": 1, "optimizer": "adam", "cuda_device": -1, "callbacks": ["fails"]},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    home = Path(__file__).resolve().parents[1]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{home}:{tmp_path}", "HOME": str(tmp_path), "COLUMNS": "80"}
    subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, env=environment, check=True)
    without, beside = (lines_of(tmp_path / f"in-{ours}/output") for ours in (False, True))
    assert any("handlers" in line for line in without) and "their error" in without[-1]
    assert beside == without
    losses = [json.loads((tmp_path / f"in-{ours}/run/metrics_epoch_0.json").read_text()) for ours in (False, True)]
    assert losses[0].keys() == losses[1].keys() and losses[0]["validation_loss"] == losses[1]["validation_loss"]
