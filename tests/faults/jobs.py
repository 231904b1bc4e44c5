"""The jobs: what they are made of, how a user starts them, and how a user continues them."""

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import allennlp.__main__  # noqa: F401  (errors are short in the command only)
from allennlp import commands
from allennlp.common.plugins import import_plugins

from elmo_plugin.checkpoints import convert
from elmo_plugin.embedding import corpus
from tests import killer  # noqa: F401  (registers `kill`)
from tests.embedding_runs import write_text
from tests.faults.processes import fork, wait
from tests.oracles import options, write_files
from tests.pretraining_runs import config
from tests.task_oracles import TOWNS, experiment, small_bilm, tagger, tags_reader

import_plugins()
commands.import_plugins = lambda: None  # it takes seconds each time

Step = Callable[[], object]


class Job(NamedTuple):
    """A job in the working directory, beside the folder `../inputs`."""

    inputs: Callable[[Path], object]
    """Writes the inputs into a folder."""
    start: Step
    again: Step
    """Continues the job, or starts it again, after a fault."""
    before: Step = lambda: None
    """Makes what the job replaces."""
    is_training: bool = False
    """Whether AllenNLP writes files of its own, of which a fault may leave a part."""


def command(*arguments: str) -> None:
    """Run the `allennlp` command."""
    logging.raiseExceptions = False  # or a log that cannot be written prints tracebacks
    sys.argv = ["allennlp", *arguments]
    commands.main()


def training(inputs: Callable[[Path], object], killed_after: int = 0) -> Job:
    """Return the job of a training config, which `--recover` continues once the run has written its own config.

    With `killed_after`, the job is to recover a run that was killed after so many batches.
    """
    start = partial(command, "train", "../inputs/config.json", "-s", "run")

    def again() -> None:
        is_begun = Path("run/config.json").exists()
        command("train", "../inputs/config.json", "-s", "run", "--recover" if is_begun else "--force")

    def killed() -> None:
        os.environ["KILL_AFTER"] = str(killed_after)
        assert wait(fork(start)) == -signal.SIGKILL

    if killed_after:
        return Job(inputs, again, again, killed, is_training=True)
    return Job(inputs, start, again, is_training=True)


def pretraining_inputs(folder: Path, **changes: Any) -> None:
    """Two epochs of three batches of a biLM with few tensors, and a checkpoint after each second batch."""
    keys = config(folder, "unrolled_streams", **changes)
    keys["model"]["bilm"]["options"] = options(n_layers=1, n_highway=0, filters=[[1, 8]]).to_dict()
    keys["data_loader"]["batches_per_epoch"] = 3
    keys["trainer"]["checkpointer"]["save_every_num_batches"] = 2
    keys["trainer"]["learning_rate_scheduler"]["warmup_steps"] = 1
    (folder / "config.json").write_text(json.dumps(keys))


def task_inputs(folder: Path) -> None:
    """Three epochs of a tagger without dropout and shuffling, which AllenNLP's own `--recover` continues exactly."""
    options_file, weight_file = write_files(folder, small_bilm())
    elmo = {"options_file": options_file, "weight_file": weight_file, "dropout": 0.0, "sentence_cache": "cache"}
    keys = experiment(tagger(elmo), tags_reader(), TOWNS, num_epochs=3, checkpointer={"type": "atomic"})
    keys["data_loader"]["shuffle"] = False
    keys["trainer"]["optimizer"]["lr"] = 0.3  # so high that the second epoch is the best
    (folder / "config.json").write_text(json.dumps(keys))


def embedding(ending: str, processes: int = 1) -> Job:
    """Return the job of embedding a text of several windows, compressed, which the same command continues."""
    output = f"vectors.{ending}"

    def inputs(folder: Path) -> None:
        write_files(folder / "bilm", small_bilm())
        write_text(folder / "text", 24)

    def start() -> None:
        corpus.CHARACTERS_IN_WINDOW = 600
        options = ("--bilm", "../inputs/bilm", "--compress", "--processes", str(processes))
        command("embed-corpus", "../inputs/text", output, *options)

    def again() -> None:
        try:
            start()
        except SystemExit as error:
            if not ("exists already" in str(error.code) and Path(output).exists()):
                raise

    return Job(inputs, start, again)


def conversion(target: str, *options: str, replaces: bool = False) -> Job:
    """Return the job of converting a biLM. It is run again with `--force`, and replaces another biLM if asked."""

    def inputs(folder: Path) -> None:
        write_files(folder / "bilm_tf", small_bilm())
        write_files(folder / "other", small_bilm(n_layers=1))
        convert(folder / "bilm_tf", folder / "bilm.safetensors")
        (folder / "text").write_text("The boat leaks .\nIt sinks\n")

    def before() -> None:
        if replaces:
            command("convert-elmo", "../inputs/other", target)

    source = "bilm_tf" if target.endswith(".safetensors") else "bilm.safetensors"
    run = partial(command, "convert-elmo", f"../inputs/{source}", target, *options)
    forced = partial(run, "--force")
    return Job(inputs, forced if replaces else run, forced, before)


JOBS = {
    "pretraining": training(pretraining_inputs),
    "pretraining-recover": training(pretraining_inputs, killed_after=4),
    "task": training(task_inputs),
    "embed-hdf5": embedding("hdf5"),
    "embed-npz": embedding("npz"),
    "embed-parquet": embedding("parquet"),
    "embed-hdf5-2": embedding("hdf5", processes=2),
    "embed-parquet-2": embedding("parquet", processes=2),
    "convert-bilm-tf": conversion("bilm"),
    "convert-bilm-tf-over": conversion("bilm", replaces=True),
    "convert-hub": conversion("bilm", "--to", "hub"),
    "convert-native": conversion("bilm.safetensors"),
    "convert-native-over": conversion("bilm.safetensors", replaces=True),
    "convert-warm": conversion("bilm.safetensors", "--warm-on", "../inputs/text"),
}
