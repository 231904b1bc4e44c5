"""An import of this package leaves other plugins as they were: output, logging, signals, warnings and errors."""

import json
import re
import subprocess
import sys
from pathlib import Path

PLUGIN = """
import signal
from allennlp.models import Model, SimpleTagger

@Model.register("theirs")
class Theirs(SimpleTagger):
    def forward(self, *args, **kwargs):
        print("handlers", *map(signal.getsignal, (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)))
        return super().forward(*args, **kwargs)
"""
SCRIPT = """
import json, logging, os, sys, warnings

import allennlp.__main__
from allennlp.commands import main
from allennlp.common import plugins
from allennlp.common.util import install_sigterm_handler
import theirs

plugins.DEFAULT_PLUGINS = ()

def run(*arguments):
    sys.argv = ["allennlp", *arguments, "--include-package", "theirs"]
    try:
        main()
    except BaseException as error:
        sys.excepthook(type(error), error, None)

install_sigterm_handler()
for ours in (False, True):
    sys.stdout.flush()
    process = os.fork()
    if not process:
        sys.argv = ["allennlp", "train", "config.json", "-s", "run", "--include-package", "theirs"]
        output = os.open(f"output-{ours}", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        before = list(warnings.filters), sys.excepthook, list(logging.getLogger().handlers), logging.getLogger().level
        if ours:
            import elmo_plugin
        assert before == (
            list(warnings.filters), sys.excepthook, list(logging.getLogger().handlers), logging.getLogger().level
        )
        os.mkdir(f"in-{ours}")
        os.chdir(f"in-{ours}")
        run("train", "../config.json", "-s", "run")
        run("evaluate", "not/there.tar.gz", "../data.tsv")
        run("train", "../config.json", "-s", "wrong", "-o", json.dumps({"model.type": "thiers"}))
        run("train", "../config.json", "-s", "wrong", "-o", json.dumps({"trainer.validation_metric": "+f1"}))
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(process, 0)[1] == 0, open(f"output-{ours}").read()
"""
CHANGING = re.compile(r"\S*\d+:\d+\S*|\S+/s\b|\?it/s|0x\w+|/tmp/\w+|\['.*'\]|/loky-[\w-]+")
"""What differs between two runs: times, rates, addresses, temporary files, and the registered names in an error."""


def lines_of(output: Path) -> list[str]:
    """Return what was printed, without frames of tracebacks, progress bars, and the memory of the process."""
    lines = re.split(r"[\r\n]+", output.read_text().replace("in-True", "in-False"))
    shown = [line for line in lines if line and not re.search(r"^  |\||memory", line)]
    return [" ".join(CHANGING.sub("…", line).split()) for line in shown]


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
        "trainer": {"num_epochs": 1, "optimizer": "adam", "cuda_device": -1},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    home = Path(__file__).resolve().parents[1]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{home}:{tmp_path}", "HOME": str(tmp_path), "COLUMNS": "80"}
    command = [sys.executable, "-u", "-c", SCRIPT]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    without, beside = (lines_of(tmp_path / f"output-{ours}") for ours in (False, True))
    assert any("handlers" in line for line in without) and any("thiers" in line for line in without)
    assert beside == without
    metrics = [json.loads((tmp_path / f"in-{ours}/run/metrics.json").read_text()) for ours in (False, True)]
    assert metrics[0].keys() == metrics[1].keys()
    assert metrics[0]["best_validation_loss"] == metrics[1]["best_validation_loss"]
